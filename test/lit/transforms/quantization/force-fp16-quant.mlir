// FORCE_FP16_QUANT: 0.1 becomes float16's 0.0999755859, the bias is in units of that times 0.01, and the accumulator's scale loses its
// last 13 bits: 0.000999755831 is 0x3A830A3D, 0.000999450684 is 0x3A830000.
// RUN: echo 'record { key: "fc" value { scale_d: 0.1 offset_d: 5 scale_w: 0.01 offset_w: 0 fakequant_precision_mode: "FORCE_FP16_QUANT" } }' > %t.txt
// RUN: amct-opt %s --quantize='record=%t.txt' --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --quantize='record=%t.txt' --lower-to-ascend | filecheck %s --check-prefix ASCEND
// RUN: amct-opt %s --insert-observers='record=%t.txt fakequant-precision-mode=FORCE_FP16_QUANT' --convert-observers | filecheck %s
// RUN: not amct-opt %s --quantize='fakequant-precision-mode=FP8' 2>&1 | filecheck %s --check-prefix MODE

// CHECK:       fakequant_precision_mode = "FORCE_FP16_QUANT"
// CHECK:       nn.quantize %x by <i8, scale = 0.099975586, zero_point = 5> given record
// CHECK:       nn.constant dense<[500, -1250]> : tensor<2xi32>
// REMARK:      [convert-observers analysis fp16-scale] "fc": scale 0.100000001 of fc:0 becomes 0.0999755859
// ASCEND:      ascend.AscendQuant %x fakequant_precision_mode "FORCE_FP16_QUANT" scale 10.002442 offset 5.0
// ASCEND:      nn.constant dense<0.000999450684> : tensor<1xf32>
// ASCEND:      ascend.AscendDequant {{.*}} fakequant_precision_mode "FORCE_FP16_QUANT"
// MODE:        error: --quantize: fakequant-precision-mode: 'FP8' is not one of FORCE_FP16_QUANT
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %weight = nn.constant dense<[[1.27, 0.05], [-1.0, 0.0]]> : tensor<2x2xf32>
  %bias = nn.constant dense<[0.5, -1.25]> : tensor<2xf32>
  %y = nn.matmul %x, %weight, %bias from <onnx, "Gemm", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
