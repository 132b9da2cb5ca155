// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Broadcasting repeats axes of size 1, new ones too.
// CHECK-LABEL: @expand
// CHECK-NEXT:    %a_multiples = nn.constant dense<[1, 4, 1]> : tensor<3xi64>
// CHECK-NEXT:    %a = ascend.Tile %x, %a_multiples
// CHECK-NEXT:    %b_x = ascend.Unsqueeze %a axes [0, 1]
// CHECK-NEXT:    %b_multiples = nn.constant dense<[2, 1, 1, 1, 1]> : tensor<5xi64>
// CHECK-NEXT:    %b = ascend.Tile %b_x, %b_multiples
// CHECK-NEXT:    %c_multiples = nn.constant dense<[1, 1, 5]> : tensor<3xi64>
// CHECK-NEXT:    %c = ascend.Tile %y, %c_multiples
// REMARK:      [lower-to-ascend applied lower] "a": computed by ascend.Tile
func.func @expand(%x: tensor<2x1x3xf32>, %y: tensor<?x4x1xf32>) -> (tensor<2x1x2x4x3xf32>, tensor<?x4x5xf32>) {
  %a = nn.expand %x to [2, 4, 1] : (tensor<2x1x3xf32>) -> tensor<2x4x3xf32>
  %b = nn.expand %a to [2, 1, 2, 4, 3] : (tensor<2x4x3xf32>) -> tensor<2x1x2x4x3xf32>
  %c = nn.expand %y to [4, 5] : (tensor<?x4x1xf32>) -> tensor<?x4x5xf32>
  func.return %b, %c : tensor<2x1x2x4x3xf32>, tensor<?x4x5xf32>
}

// -----

// A size that may be 1, or a shape that is computed: what is repeated is found at run time.
// CHECK-LABEL: @expand_at_run_time
// CHECK:         %a_x_sizes = ascend.Shape %x dtype 9
// CHECK:         %a_repeated = ascend.Equal %a_x_sizes, %a_one
// CHECK-NEXT:    %a_multiples = ascend.Select %a_repeated, %a_to, %a_one
// CHECK-NEXT:    %a = ascend.Tile %x, %a_multiples : (tensor<?x3xf32>, tensor<2xi64>) -> tensor<4x3xf32>
// CHECK-NEXT:    %b_x = ascend.Unsqueeze %x axes [0]
// CHECK:         %b = ascend.Tile %b_x, %b_multiples
func.func @expand_at_run_time(%x: tensor<?x3xf32>, %s: tensor<3xi64>) -> (tensor<4x3xf32>, tensor<?x?x?xf32>) {
  %a = nn.expand %x to [4, 3] : (tensor<?x3xf32>) -> tensor<4x3xf32>
  %b = nn.expand %x, %s : (tensor<?x3xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  func.return %a, %b : tensor<4x3xf32>, tensor<?x?x?xf32>
}

// -----

// CHECK-LABEL: @refused
// CHECK-NEXT:    %b = nn.expand
// CHECK-NEXT:    %c = nn.arg_max
// REMARK-DAG:  [lower-to-ascend missed known-sizes] "b": its shape is computed at run time, and how many sizes it has is not known
// REMARK-DAG:  [lower-to-ascend missed first-of-equal] "c": Ascend IR finds the first one of equal elements
func.func @refused(%x: tensor<?x3xf32>, %s: tensor<?xi64>) -> (tensor<?x?xf32>, tensor<?xi64>) {
  %b = nn.expand %x, %s : (tensor<?x3xf32>, tensor<?xi64>) -> tensor<?x?xf32>
  %c = nn.arg_max %x axis 1 last : (tensor<?x3xf32>) -> tensor<?xi64>
  func.return %b, %c : tensor<?x?xf32>, tensor<?xi64>
}

// -----

// Sizes at run time, all or some; places of the largest elements.
// CHECK-LABEL: @shape
// CHECK-NEXT:    %a = ascend.Shape %x dtype 9 :
// CHECK-NEXT:    %b_sizes = ascend.Shape %x dtype 9 :
// CHECK-NEXT:    %b_offsets = nn.constant dense<2> : tensor<1xi64>
// CHECK-NEXT:    %b_size = nn.constant dense<1> : tensor<1xi64>
// CHECK-NEXT:    %b = ascend.Slice %b_sizes, %b_offsets, %b_size
// CHECK-NEXT:    %c_dimension = nn.constant dense<2> : tensor<i64>
// CHECK-NEXT:    %c = ascend.ArgMaxV2 %x, %c_dimension : (tensor<?x?x3xf32>, tensor<i64>) -> tensor<?x?xi64>
// CHECK:         %d_index = ascend.ArgMaxV2 %x, %d_dimension
// CHECK-NEXT:    %d = ascend.Unsqueeze %d_index axes [1]
// CHECK:         %e = ascend.ArgMin %x, %e_dimension
// REMARK:      [lower-to-ascend applied lower] "a": computed by ascend.Shape
func.func @shape(%x: tensor<?x?x3xf32>) -> (tensor<3xi64>, tensor<1xi64>, tensor<?x?xi64>, tensor<?x1x3xi64>, tensor<?x?xi64>) {
  %a = nn.shape %x : (tensor<?x?x3xf32>) -> tensor<3xi64>
  %b = nn.shape %x start -1 : (tensor<?x?x3xf32>) -> tensor<1xi64>
  %c = nn.arg_max %x axis -1 : (tensor<?x?x3xf32>) -> tensor<?x?xi64>
  %d = nn.arg_max %x axis 1 keepdims : (tensor<?x?x3xf32>) -> tensor<?x1x3xi64>
  %e = nn.arg_min %x axis 2 : (tensor<?x?x3xf32>) -> tensor<?x?xi64>
  func.return %a, %b, %c, %d, %e : tensor<3xi64>, tensor<1xi64>, tensor<?x?xi64>, tensor<?x1x3xi64>, tensor<?x?xi64>
}
