// RUN: amct-opt %s --print-debuginfo | amct-opt - --print-op-generic --print-debuginfo | amct-opt - --print-debuginfo | filecheck %s

// Locations survive both forms; an operation without one gets its place in the file that it was read from first.

// CHECK: func.func @main
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: %a = nn.relu %x : tensor<2xf32> loc("{{.*}}locations.mlir":8:3)
  %a = nn.relu %x : tensor<2xf32>
  // CHECK-NEXT: %b = nn.relu %a : tensor<2xf32> loc("conv1"("net.onnx":0:0))
  %b = nn.relu %a : tensor<2xf32> loc("conv1"("net.onnx":0:0))
  // CHECK-NEXT: %c = nn.relu %b : tensor<2xf32> loc(fused["层"("net.onnx":0:0), "bn \"1\""])
  %c = nn.relu %b : tensor<2xf32> loc(fused["层"("net.onnx":0:0), "bn \"1\""])
  // CHECK-NEXT: %d = nn.relu %c : tensor<2xf32> loc(callsite("f" at "net.py":3:4))
  %d = nn.relu %c : tensor<2xf32> loc(callsite("f" at "net.py":3:4))
  // CHECK-NEXT: %e = nn.relu %d : tensor<2xf32> loc(unknown)
  %e = nn.relu %d : tensor<2xf32> loc(unknown)
  // CHECK-NEXT: func.return
  func.return %e : tensor<2xf32>
}
