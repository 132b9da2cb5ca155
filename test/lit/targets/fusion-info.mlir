// The fusion information of a quantized module: quantized layers between the nodes before and after them, one before all that
// read a value.
// RUN: amct-opt %s --quantize='observer=minmax' -t fusion-info -o %t_quant.json 2>/dev/null
// RUN: filecheck %s --input-file=%t_quant.json
// CHECK: "name": "{{.*}}.tmp",
// CHECK: "name": "fc1.quant",
// CHECK-NEXT: "type": "AscendQuant",
// CHECK: "key": "_datadump_original_op_names",
// CHECK: "val_type": 1,
// CHECK-NEXT: "s": [
// CHECK-NEXT: "fc1"
// CHECK: "name": "fc1",
// CHECK-NEXT: "type": "MatMul",
// CHECK: "name": "fc1.dequant",
// CHECK-NEXT: "type": "AscendDequant",
// CHECK: "key": "_datadump_origin_name",
// CHECK-NEXT: "value": {
// CHECK-NEXT: "s": "fc1"
// CHECK-NOT: "fc2.quant"
// CHECK: "name": "fc2",
// CHECK: "name": "fc2.dequant",
// CHECK: "name": "sum",
// CHECK-NEXT: "type": "Add"
// CHECK-NEXT: }

// The layers of Caffe have other names.
// RUN: sed 's/<onnx, "MatMul"/<caffe, "InnerProduct"/' %s > %t.caffe.mlir
// RUN: amct-opt %t.caffe.mlir --quantize='observer=minmax' -t fusion-info -o %t.json 2>/dev/null
// RUN: filecheck %s --input-file=%t.json --check-prefix=CAFFE
// CAFFE: "name": "fc1.quant",
// CAFFE-NEXT: "type": "Quant",
// CAFFE: "name": "fc1.dequant",
// CAFFE-NEXT: "type": "DeQuant",

func.func @main(%x: tensor<?x2xf32> {nn.name = "x"}) -> (tensor<?x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %v = nn.constant dense<[[4.0, 2.0], [3.0, 1.0]]> : tensor<2x2xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "fc1"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %1 = nn.matmul %x, %v from <onnx, "MatMul", "fc2"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %2 = nn.add %0, %1 from <onnx, "Add", "sum"> : tensor<?x2xf32>
  func.return %2 : tensor<?x2xf32>
}
