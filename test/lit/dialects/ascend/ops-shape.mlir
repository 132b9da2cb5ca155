// RUN: ROUNDTRIP | filecheck %s

// Data movement and reductions.

// CHECK-LABEL: func.func @reshape(
func.func @reshape(%x: tensor<?x3x4xf32>, %s: tensor<2xi64>, %o: tensor<1x3x1x4xi8>) {
  // CHECK-NEXT: %shape = nn.constant dense<[-1, 12]> : tensor<2xi64>
  %shape = nn.constant dense<[-1, 12]> : tensor<2xi64>
  // CHECK-NEXT: %perm = nn.constant dense<[2, 0, 1]> : tensor<3xi32>
  %perm = nn.constant dense<[2, 0, 1]> : tensor<3xi32>
  // CHECK-NEXT: %reshape = ascend.Reshape %x, %shape : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x12xf32>
  %reshape = ascend.Reshape %x, %shape : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x12xf32>
  // CHECK-NEXT: %runtime = ascend.Reshape %x, %s : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x4xf32>
  %runtime = ascend.Reshape %x, %s : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x4xf32>
  // CHECK-NEXT: %transpose = ascend.Transpose %x, %perm : (tensor<?x3x4xf32>, tensor<3xi32>) -> tensor<4x?x3xf32>
  %transpose = ascend.Transpose %x, %perm : (tensor<?x3x4xf32>, tensor<3xi32>) -> tensor<4x?x3xf32>
  // CHECK-NEXT: %flatten = ascend.Flatten %x : (tensor<?x3x4xf32>) -> tensor<?x12xf32>
  %flatten = ascend.Flatten %x : (tensor<?x3x4xf32>) -> tensor<?x12xf32>
  // CHECK-NEXT: %flatter = ascend.Flatten %x axis -1 : (tensor<?x3x4xf32>) -> tensor<?x4xf32>
  %flatter = ascend.Flatten %x axis -1 : (tensor<?x3x4xf32>) -> tensor<?x4xf32>
  // CHECK-NEXT: %squeeze = ascend.Squeeze %o axis [2] : (tensor<1x3x1x4xi8>) -> tensor<1x3x4xi8>
  %squeeze = ascend.Squeeze %o axis [2] : (tensor<1x3x1x4xi8>) -> tensor<1x3x4xi8>
  // CHECK-NEXT: %all = ascend.Squeeze %o : (tensor<1x3x1x4xi8>) -> tensor<3x4xi8>
  %all = ascend.Squeeze %o : (tensor<1x3x1x4xi8>) -> tensor<3x4xi8>
  // CHECK-NEXT: %unsqueeze = ascend.Unsqueeze %x axes [1, -1] : (tensor<?x3x4xf32>) -> tensor<?x1x3x4x1xf32>
  %unsqueeze = ascend.Unsqueeze %x axes [1, -1] : (tensor<?x3x4xf32>) -> tensor<?x1x3x4x1xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @join(
func.func @join(%x: tensor<?x3x4xf32>, %y: tensor<?x2x4xf32>, %i: tensor<2x2xi64>) {
  // CHECK-NEXT: %one = nn.constant dense<1> : tensor<i64>
  %one = nn.constant dense<1> : tensor<i64>
  // CHECK-NEXT: %sizes = nn.constant dense<[1, 2]> : tensor<2xi64>
  %sizes = nn.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK-NEXT: %pads = nn.constant dense<[0, 0, 1, 2, 0, 0]> : tensor<6xi64>
  %pads = nn.constant dense<[0, 0, 1, 2, 0, 0]> : tensor<6xi64>
  // CHECK-NEXT: %axes = nn.constant dense<[1, 2]> : tensor<2xi64>
  %axes = nn.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK-NEXT: %begin = nn.constant dense<[0, -1]> : tensor<2xi64>
  %begin = nn.constant dense<[0, -1]> : tensor<2xi64>
  // CHECK-NEXT: %end = nn.constant dense<[2, -9223372036854775808]> : tensor<2xi64>
  %end = nn.constant dense<[2, -9223372036854775808]> : tensor<2xi64>
  // CHECK-NEXT: %strides = nn.constant dense<[1, -2]> : tensor<2xi64>
  %strides = nn.constant dense<[1, -2]> : tensor<2xi64>
  // CHECK-NEXT: %value = nn.constant dense<0.000000e+00> : tensor<f32>
  %value = nn.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %concat = ascend.ConcatV2 %x, %y, %one N 2 : (tensor<?x3x4xf32>, tensor<?x2x4xf32>, tensor<i64>) -> tensor<?x5x4xf32>
  %concat = ascend.ConcatV2 %x, %y, %one N 2 : (tensor<?x3x4xf32>, tensor<?x2x4xf32>, tensor<i64>) -> tensor<?x5x4xf32>
  // CHECK-NEXT: %split, %rest = ascend.SplitV %x, %sizes, %one num_split 2 : (tensor<?x3x4xf32>, tensor<2xi64>, tensor<i64>) -> (tensor<?x1x4xf32>, tensor<?x2x4xf32>)
  %split, %rest = ascend.SplitV %x, %sizes, %one num_split 2 : (tensor<?x3x4xf32>, tensor<2xi64>, tensor<i64>) -> (tensor<?x1x4xf32>, tensor<?x2x4xf32>)
  // CHECK-NEXT: %slice = ascend.StridedSliceV2 %x, %begin, %end, %axes, %strides : (tensor<?x3x4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x2x2xf32>
  %slice = ascend.StridedSliceV2 %x, %begin, %end, %axes, %strides : (tensor<?x3x4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x2x2xf32>
  // CHECK-NEXT: %gather = ascend.GatherV2 %x, %i, %one negative_index_support true : (tensor<?x3x4xf32>, tensor<2x2xi64>, tensor<i64>) -> tensor<?x2x2x4xf32>
  %gather = ascend.GatherV2 %x, %i, %one negative_index_support true : (tensor<?x3x4xf32>, tensor<2x2xi64>, tensor<i64>) -> tensor<?x2x2x4xf32>
  // CHECK-NEXT: %pad = ascend.PadV3 %x, %pads, %value : (tensor<?x3x4xf32>, tensor<6xi64>, tensor<f32>) -> tensor<?x6x4xf32>
  %pad = ascend.PadV3 %x, %pads, %value : (tensor<?x3x4xf32>, tensor<6xi64>, tensor<f32>) -> tensor<?x6x4xf32>
  // CHECK-NEXT: %onnx = ascend.PadV3 %x, %pads mode "edge" paddings_contiguous false : (tensor<?x3x4xf32>, tensor<6xi64>) -> tensor<?x3x5xf32>
  %onnx = ascend.PadV3 %x, %pads mode "edge" paddings_contiguous false : (tensor<?x3x4xf32>, tensor<6xi64>) -> tensor<?x3x5xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @reduce(
func.func @reduce(%x: tensor<?x3x4xf32>) {
  // CHECK-NEXT: %axes = nn.constant dense<[1, -1]> : tensor<2xi64>
  %axes = nn.constant dense<[1, -1]> : tensor<2xi64>
  // CHECK-NEXT: %mean = ascend.ReduceMean %x, %axes keep_dims true : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x1x1xf32>
  %mean = ascend.ReduceMean %x, %axes keep_dims true : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x1x1xf32>
  // CHECK-NEXT: %reducesum = ascend.ReduceSum %x, %axes : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?xf32>
  %reducesum = ascend.ReduceSum %x, %axes : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?xf32>
  // CHECK-NEXT: %reducemax = ascend.ReduceMax %x, %axes : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?xf32>
  %reducemax = ascend.ReduceMax %x, %axes : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?xf32>
  // CHECK-NEXT: %reducemin = ascend.ReduceMin %x, %axes : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?xf32>
  %reducemin = ascend.ReduceMin %x, %axes : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?xf32>
  // CHECK-NEXT: %reduceprod = ascend.ReduceProd %x, %axes : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?xf32>
  %reduceprod = ascend.ReduceProd %x, %axes : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?xf32>
  // CHECK-NEXT: func.return
  func.return
}
