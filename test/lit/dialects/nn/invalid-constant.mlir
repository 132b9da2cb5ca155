// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of constants and references to arrays.

func.func @main() {
  // CHECK: invalid-constant.mlir:7:20: error: dense or #nn.external expected
  %c = nn.constant 1 : i32
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:15:3: error: 'nn.constant' op there are no arrays of index
  %c = nn.constant dense<1> : tensor<2xindex>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:24:3: error: Shape mismatch in dense literal. Expected [3] shape from the type, but got [2] shape.
  %c = nn.constant dense<[1, 2]> : tensor<3xi8>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:32:3: error: Shape mismatch in dense literal. Expected 2 elements from the type, but got 1 elements.
  %c = nn.constant dense<"0x000000"> : tensor<2xf16>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:39:3: error: 'nn.constant' op holds 5 bytes, tensor<2xf16> has 4
  %c = nn.constant dense<"0x0000000000"> : tensor<2xf16>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:47:27: error: hex number is not a bit pattern of f32
  %c = nn.constant dense<[0x7F8000000]> : tensor<1xf32>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:55:27: error: hex number is not a bit pattern of f32
  %c = nn.constant dense<[-0x1]> : tensor<1xf32>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:63:38: error: tensor type expected
  %c = nn.constant #nn.external<"a", vector<2xf32>>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:71:3: error: 'nn.constant' op a constant has no unknown sizes
  %c = nn.constant #nn.external<"a", tensor<?xf32>>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:79:72: error: '../other.safetensors': arrays are read only from the module's own folder
  %c = nn.constant #nn.external<"../other.safetensors#a", tensor<2xf32>>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:87:74: error: '/etc/other.safetensors': arrays are read only from the module's own folder
  %c = nn.constant #nn.external<"/etc/other.safetensors#a", tensor<2xf32>>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:95:53: error: malformed bytes: cannot reshape array of size 1 into shape (2,)
  %c = nn.constant #nn.external<"a", tensor<2xf32>, "0x00000000">
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:103:53: error: malformed bytes: non-hexadecimal number found in fromhex() arg at position 7
  %c = nn.constant #nn.external<"a", tensor<1xf32>, "0x0000000g">
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:111:55: error: malformed bytes: no array type for element type index
  %c = nn.constant #nn.external<"a", tensor<1xindex>, "0x00000000">
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:119:33: error: key expected, a string literal
  %c = nn.constant #nn.external<a, tensor<1xf32>>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:127:33: error: key expected, a string literal
  %c = nn.constant #nn.external<"\FF", tensor<1xf32>>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-constant.mlir:135:3: error: 'nn.constant' op holds tensor<2xi8>, its result is tensor<3xi8>
  %c = "nn.constant"() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<3xi8>
  func.return
}
