// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of indexing.

// One table.
// CHECK: error: 'ascend.Gather' op batch_dims must be 0
func.func @main(%x: tensor<?x4x6xf32>, %i: tensor<2x3xi64>) {
  %y = ascend.Gather %x, %i batch_dims 1 : (tensor<?x4x6xf32>, tensor<2x3xi64>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// It has an axis.
// CHECK: error: 'ascend.Gather' op x must be of rank 1 or more, not 0
func.func @main(%x: tensor<f32>, %i: tensor<2x3xi64>) {
  %y = ascend.Gather %x, %i : (tensor<f32>, tensor<2x3xi64>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// Indices are integers.
// CHECK: error: 'ascend.Gather' op indices is of f32, Gather takes i32, i64
func.func @main(%x: tensor<?x4x6xf32>, %i: tensor<2xf32>) {
  %y = ascend.Gather %x, %i : (tensor<?x4x6xf32>, tensor<2xf32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// At most as many as x has axes.
// CHECK: error: 'ascend.GatherNd' op indices [2, 4] must end in at most 3, the rank of x
func.func @main(%x: tensor<?x4x6xf32>, %i: tensor<2x4xi64>) {
  %y = ascend.GatherNd %x, %i : (tensor<?x4x6xf32>, tensor<2x4xi64>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// A number known when compiling.
// CHECK: error: 'ascend.GatherNd' op indices [2, ?] must end in at most 3, the rank of x
func.func @main(%x: tensor<?x4x6xf32>, %i: tensor<2x?xi64>) {
  %y = ascend.GatherNd %x, %i : (tensor<?x4x6xf32>, tensor<2x?xi64>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// One number per axis.
// CHECK: error: 'ascend.Tile' op multiples has 2 entries for x of rank 3
func.func @main(%x: tensor<?x4x6xf32>) {
  %m = nn.constant dense<1> : tensor<2xi64>
  %y = ascend.Tile %x, %m : (tensor<?x4x6xf32>, tensor<2xi64>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// Those that are computed when running are as many.
// CHECK: error: 'ascend.Tile' op rank of x and entries of multiples
func.func @main(%x: tensor<?x4x6xf32>, %m: tensor<2xi64>) {
  %y = ascend.Tile %x, %m : (tensor<?x4x6xf32>, tensor<2xi64>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// Not negative.
// CHECK: error: 'ascend.Tile' op multiples [-1, -1, -1] must not be negative
func.func @main(%x: tensor<?x4x6xf32>) {
  %m = nn.constant dense<-1> : tensor<3xi64>
  %y = ascend.Tile %x, %m : (tensor<?x4x6xf32>, tensor<3xi64>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// N counts.
// CHECK: error: 'ascend.Pack' op N is 1, but there are 2 inputs
func.func @main(%x: tensor<?x4x6xf32>) {
  %y = ascend.Pack %x, %x N 1 : (tensor<?x4x6xf32>, tensor<?x4x6xf32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// Inputs are of one shape.
// CHECK: error: 'ascend.Pack' op shapes of the inputs differ: 6 and 5
func.func @main(%x: tensor<?x4x6xf32>, %h: tensor<?x4x5xf32>) {
  %y = ascend.Pack %x, %h N 2 : (tensor<?x4x6xf32>, tensor<?x4x5xf32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// Of one type.
// CHECK: error: 'ascend.Pack' op element types differ: f32, f16
func.func @main(%x: tensor<?x4x6xf32>, %h: tensor<?x4x6xf16>) {
  %y = ascend.Pack %x, %h N 2 : (tensor<?x4x6xf32>, tensor<?x4x6xf16>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// An axis of y.
// CHECK: error: 'ascend.Pack' op axis 4 is out of range for rank 4
func.func @main(%x: tensor<?x4x6xf32>) {
  %y = ascend.Pack %x, %x axis 4 N 2 : (tensor<?x4x6xf32>, tensor<?x4x6xf32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// As many slices as there are.
// CHECK: error: 'ascend.Unpack' op num is 2, axis 1 is of size 4
func.func @main(%x: tensor<?x4x6xf32>) {
  %y, %z = ascend.Unpack %x num 2 axis 1 : (tensor<?x4x6xf32>) -> (tensor<?x4x6xf32>, tensor<?x4x6xf32>)
  func.return
}

// -----

// Equal parts.
// CHECK: error: 'ascend.Split' op axis 1 of size 4 cannot be cut into 3 equal parts
func.func @main(%x: tensor<?x4x6xf32>) {
  %d = nn.constant dense<1> : tensor<i32>
  %y, %z, %w = ascend.Split %d, %x num_split 3 : (tensor<i32>, tensor<?x4x6xf32>) -> (tensor<?x4x6xf32>, tensor<?x4x6xf32>, tensor<?x4x6xf32>)
  func.return
}

// -----

// Of an axis of x.
// CHECK: error: 'ascend.Split' op split_dim 3 is out of range for rank 3
func.func @main(%x: tensor<?x4x6xf32>) {
  %d = nn.constant dense<3> : tensor<i32>
  %y, %z = ascend.Split %d, %x num_split 2 : (tensor<i32>, tensor<?x4x6xf32>) -> (tensor<?x4x6xf32>, tensor<?x4x6xf32>)
  func.return
}

// -----

// That int32 counts.
// CHECK: error: 'ascend.Split' op split_dim is of i64, Split takes i32
func.func @main(%x: tensor<?x4x6xf32>) {
  %d = nn.constant dense<1> : tensor<i64>
  %y, %z = ascend.Split %d, %x num_split 2 : (tensor<i64>, tensor<?x4x6xf32>) -> (tensor<?x4x6xf32>, tensor<?x4x6xf32>)
  func.return
}

// -----

// A range per axis.
// CHECK: error: 'ascend.Slice' op offsets and size must have 3 entries, the rank of x
func.func @main(%x: tensor<?x4x6xf32>) {
  %o = nn.constant dense<1> : tensor<2xi32>
  %y = ascend.Slice %x, %o, %o : (tensor<?x4x6xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// In x.
// CHECK: error: 'ascend.Slice' op 5 elements from 1 on are not in an axis of size 4
func.func @main(%x: tensor<?x4x6xf32>) {
  %o = nn.constant dense<1> : tensor<3xi32>
  %s = nn.constant dense<[1, 5, 1]> : tensor<3xi32>
  %y = ascend.Slice %x, %o, %s : (tensor<?x4x6xf32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// Counted from the begin.
// CHECK: error: 'ascend.Slice' op 1 elements from -1 on are not in an axis of size ?
func.func @main(%x: tensor<?x4x6xf32>) {
  %o = nn.constant dense<-1> : tensor<3xi32>
  %s = nn.constant dense<1> : tensor<3xi32>
  %y = ascend.Slice %x, %o, %s : (tensor<?x4x6xf32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// And not negative.
// CHECK: error: 'ascend.Fill' op dims [-2, 3] must not be negative
func.func @main(%v: tensor<f16>) {
  %n = nn.constant dense<[-2, 3]> : tensor<2xi32>
  %y = ascend.Fill %n, %v : (tensor<2xi32>, tensor<f16>) -> tensor<2x3xf16>
  func.return
}

// -----

// One value.
// CHECK: error: 'ascend.Fill' op value must hold one number
func.func @main(%v: tensor<2xf16>) {
  %n = nn.constant dense<[2, 3]> : tensor<2xi32>
  %y = ascend.Fill %n, %v : (tensor<2xi32>, tensor<2xf16>) -> tensor<2x3xf16>
  func.return
}

// -----

// Sizes are int32 or int64.
// CHECK: error: 'ascend.Shape' op dtype 0 is neither 3 (int32) nor 9 (int64)
func.func @main(%x: tensor<?x4x6xf32>) {
  %y = ascend.Shape %x dtype 0 : (tensor<?x4x6xf32>) -> tensor<3xi32>
  func.return
}

// -----

// An axis of x.
// CHECK: error: 'ascend.ArgMaxV2' op dimension 3 is out of range for rank 3
func.func @main(%x: tensor<?x4x6xf32>) {
  %d = nn.constant dense<3> : tensor<i32>
  %y = ascend.ArgMaxV2 %x, %d : (tensor<?x4x6xf32>, tensor<i32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// Places are int32 or int64.
// CHECK: error: 'ascend.ArgMaxV2' op dtype 1 is neither 3 (int32) nor 9 (int64)
func.func @main(%x: tensor<?x4x6xf32>) {
  %d = nn.constant dense<1> : tensor<i32>
  %y = ascend.ArgMaxV2 %x, %d dtype 1 : (tensor<?x4x6xf32>, tensor<i32>) -> tensor<?x4x6xf32>
  func.return
}

// -----

// The axis is known when compiling.
// CHECK: error: 'ascend.ArgMaxV2' op dimension must be a constant
func.func @main(%x: tensor<?x4x6xf32>, %d: tensor<i32>) {
  %y = ascend.ArgMaxV2 %x, %d : (tensor<?x4x6xf32>, tensor<i32>) -> tensor<?x4x6xf32>
  func.return
}
