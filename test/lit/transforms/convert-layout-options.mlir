// RUN: amct-opt %s --convert-layout=NHWC | filecheck %s
// RUN: amct-opt %s --convert-layout=to=nhwc | filecheck %s
// RUN: amct-opt %s -p 'convert-layout{to="NHWC"}' | filecheck %s
// RUN: not amct-opt %s --convert-layout 2>&1 | filecheck %s --check-prefix MISSING
// RUN: not amct-opt %s --convert-layout=NHCW 2>&1 | filecheck %s --check-prefix OTHER
// RUN: not amct-opt %s --convert-layout='NHWC NCHW' 2>&1 | filecheck %s --check-prefix TWICE

// CHECK:      nn.transpose %x perm [0, 2, 1] : (tensor<1x2x3xf32>) -> tensor<1x3x2xf32>
// CHECK-NEXT: nn.max_pool %{{.*}} kernel [1] layout nhwc : tensor<1x3x2xf32>
// CHECK-NEXT: nn.transpose %{{.*}} perm [0, 2, 1] : (tensor<1x3x2xf32>) -> tensor<1x2x3xf32>

// MISSING: error: --convert-layout needs the option 'to'
// OTHER:   error: --convert-layout: to: 'NHCW' is not one of NCHW, NHWC
// TWICE:   error: --convert-layout: option 'to' is given twice
func.func @main(%x: tensor<1x2x3xf32>) -> tensor<1x2x3xf32> {
  %m = nn.max_pool %x kernel [1] : tensor<1x2x3xf32>
  func.return %m : tensor<1x2x3xf32>
}
