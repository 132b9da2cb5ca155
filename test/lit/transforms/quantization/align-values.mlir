// RUN: amct-opt %s --profile=ppq --insert-observers | filecheck %s --check-prefixes PPQ
// RUN: amct-opt %s --profile=ppq --insert-observers='align-elementwise=output' | filecheck %s --check-prefix E-OUTPUT
// RUN: amct-opt %s --profile=ppq --insert-observers='align-elementwise=none align-concat=none align-resize=none' | filecheck %s --check-prefix NONE
// RUN: amct-opt %s --profile=ppq --insert-observers='align-concat=large' | filecheck %s --check-prefix C-LARGE
// RUN: amct-opt %s --profile=ppq --insert-observers='align-concat=none align-resize=none align-pooling=input' | filecheck %s --check-prefix P-INPUT
// RUN: amct-opt %s --profile=ppq --insert-observers='align-concat=none align-resize=none align-pooling=output' | filecheck %s --check-prefix P-OUTPUT
// RUN: amct-opt %s --profile=ppq --insert-observers='align-resize=input' | filecheck %s --check-prefix R-INPUT
// RUN: amct-opt %s --profile=ppq --insert-observers='align-elementwise=large force-alignment-overlap=false' | filecheck %s --check-prefix SHARED
// RUN: amct-opt %s --profile=ppq --insert-observers='joint-quant=true' | filecheck %s --check-prefix JOINT
// RUN: amct-opt %s --profile=ppq --insert-observers='force-alignment-overlap=false' --print-quant-points 2>&1 >/dev/null | filecheck %s --check-prefix POINTS
// RUN: not amct-opt %s --insert-observers='force-alignment-overlap=false' 2>&1 | filecheck %s --check-prefix PROFILE
// RUN: not amct-opt %s --profile=ppq --insert-observers='align-pooling=large' 2>&1 | filecheck %s --check-prefix MODE

// What PPQ does without options: operands of Add and Sub take the range of both, those of Concat and Resize that of the result,
// averages keep their own. Everyone who reads an aligned value follows: %a's other reader too.
// PPQ-DAG: nn.observe %a as "conv1:out" by "mse" group "sum" :
// PPQ-DAG: nn.observe %b as "conv2:out" by "mse" group "sum" :
// PPQ-DAG: nn.observe %s as "sum:out" by "mse" group "join" :
// PPQ-DAG: nn.observe %e as "e:out" by "mse" group "join" :
// PPQ-DAG: nn.observe %j as "join:out" by "mse" group "join" master :
// PPQ-DAG: nn.observe %p as "average:out" by "mse" group "up" :
// PPQ-DAG: nn.observe %u as "up:out" by "mse" group "up" master :

// The operands take what the result has; groups with a member in common are one. The sigmoid reads %a as well, so that the range
// holds %a too.
// E-OUTPUT-DAG: nn.observe %a as "conv1:out" by "mse" group "sum" master :
// E-OUTPUT-DAG: nn.observe %b as "conv2:out" by "mse" group "sum" :
// E-OUTPUT-DAG: nn.observe %s as "sum:out" by "mse" group "sum" :
// E-OUTPUT-DAG: nn.observe %j as "join:out" by "mse" group "sum" master :

// NONE-NOT: group
// NONE:     func.return

// The operands of a Concat take what holds both, its result keeps its own.
// C-LARGE-DAG: nn.observe %s as "sum:out" by "mse" group "join" :
// C-LARGE-DAG: nn.observe %e as "e:out" by "mse" group "join" :
// C-LARGE-DAG: nn.observe %j as "join:out" by "mse" :

// P-INPUT-DAG: nn.observe %j as "join:out" by "mse" group "average" master :
// P-INPUT-DAG: nn.observe %p as "average:out" by "mse" group "average" :

// P-OUTPUT-DAG: nn.observe %j as "join:out" by "mse" group "average" :
// P-OUTPUT-DAG: nn.observe %p as "average:out" by "mse" group "average" master :

// R-INPUT-DAG: nn.observe %p as "average:out" by "mse" group "up" master :
// R-INPUT-DAG: nn.observe %u as "up:out" by "mse" group "up" :

// %a is read by the sigmoid as well: it keeps its own parameters, and the sum reads it quantized once more. %x is a graph input,
// which the sum would read next to the convolutions by a point of its own.
// SHARED:     [[A:%.*]] = nn.observe %a as "conv1:out" by "mse" :
// SHARED:     [[B:%.*]] = nn.observe %b as "conv2:out" by "mse" group "sum" :
// SHARED:     [[AGAIN:%.*]] = nn.observe [[A]] as "sum:0" by "mse" group "sum" :
// SHARED:     nn.add [[AGAIN]], [[B]]
// SHARED:     nn.sigmoid [[A]]
// SHARED:     [[X:%.*]] = nn.observe %x as "difference:1" by "mse" group "difference" :
// SHARED:     nn.sub {{.*}}, [[X]]
// POINTS:     conv1 a ACTIVATED
// POINTS:     conv2 b PASSIVE group sum
// POINTS:     sum a PASSIVE group sum
// POINTS:     difference x PASSIVE group difference

// AMCT's joint quantization is the mode of additions; a difference keeps PPQ's.
// JOINT-DAG:  nn.observe %a as "conv1:out" by "mse" group "sum" master joint :
// JOINT-DAG:  nn.observe %b as "conv2:out" by "mse" group "sum" master joint :
// JOINT-DAG:  nn.observe %s as "sum:out" by "mse" group "sum" joint :

// PROFILE:    error: profile ascend does not support force-alignment-overlap
// MODE:       error: --insert-observers: align-pooling: 'large' is not one of input, output, none
func.func @main(%x: tensor<1x2x4x4xf32>) -> (tensor<1x4x4x4xf32>, tensor<1x2x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.conv %x, %w from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.add %a, %b from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %e = nn.sigmoid %a from <onnx, "Sigmoid", "e"> : tensor<1x2x4x4xf32>
  %j = nn.concat %s, %e axis 1 from <onnx, "Concat", "join"> : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x4x4x4xf32>
  %p = nn.average_pool %j kernel [2, 2] strides [2, 2] from <onnx, "AveragePool", "average"> : (tensor<1x4x4x4xf32>) -> tensor<1x4x2x2xf32>
  %u = nn.resize %p scales [1.0, 1.0, 2.0, 2.0] from <onnx, "Resize", "up"> : (tensor<1x4x2x2xf32>) -> tensor<1x4x4x4xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv3"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %d = nn.sub %c, %x from <onnx, "Sub", "difference"> : tensor<1x2x4x4xf32>
  func.return %u, %d : tensor<1x4x4x4xf32>, tensor<1x2x4x4xf32>
}
