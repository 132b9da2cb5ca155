// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of fused regions.

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:7:3: error: 'nn.fused' op 'nn.fused' terminates with operation nn.relu instead of nn.yield
  %y = nn.fused "A" (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %r = nn.relu %a : tensor<2xf32>
  }
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:17:3: error: 'nn.fused' op yields tensor<2xf32>, its result is tensor<3xf32>
  %y = nn.fused "A" (%a = %x) : (tensor<2xf32>) -> tensor<3xf32> {
    nn.yield %a : tensor<2xf32>
  }
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:27:3: error: 'nn.fused' op holds the quantization point 'nn.observe'
  %y = nn.fused "A" (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %o = nn.observe %a as "a:0" by "min-max" : tensor<2xf32>
    nn.yield %o : tensor<2xf32>
  }
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:38:3: error: 'nn.fused' op holds the quantization point 'nn.quantize'
  %y = nn.fused "A" (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %o = nn.quantize %a by <i8, scale = 1.0> : (tensor<2xf32>) -> tensor<2xi8>
    %p = nn.dequantize %o by <i8, scale = 1.0> : (tensor<2xi8>) -> tensor<2xf32>
    nn.yield %p : tensor<2xf32>
  }
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:50:3: error: 'nn.fused' op holds 'nn.constant', only nn operations may be fused
  %y = nn.fused "A" (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %c = nn.constant dense<1.0> : tensor<2xf32>
    nn.yield %c : tensor<2xf32>
  }
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:61:3: error: 'nn.fused' op Operation using value defined out of its IsolatedFromAbove parent: ReluOp(%r = nn.relu %x : tensor<2xf32>)
  %y = nn.fused "A" (%a = %x) : (tensor<2xf32>) -> tensor<2xf32> {
    %r = nn.relu %x : tensor<2xf32>
    nn.yield %r : tensor<2xf32>
  }
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:72:81: error: the type must have 1 inputs and one output
  %y = nn.fused "A" (%a = %x) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> {
    nn.yield %a : tensor<2xf32>
  }
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:82:83: error: the type must have 1 inputs and one output
  %y = nn.fused "A" (%a = %x) : (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    nn.yield %a : tensor<2xf32>
  }
  func.return
}

// -----

// The generic form does not bind arguments to inputs by itself.
func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-fused.mlir:93:3: error: 'nn.fused' op the block's arguments have other types than the inputs
  %y = "nn.fused"(%x) <{kind = "A"}> ({
  ^bb0(%a: tensor<3xf32>):
    nn.yield %a : tensor<3xf32>
  }) : (tensor<2xf32>) -> tensor<3xf32>
  func.return
}
