// RUN: amct-opt %s --canonicalize --split-input-file --print-debuginfo | filecheck %s

// Bounds that have a name get it.
// CHECK-LABEL: @named
// CHECK-NEXT:  nn.relu6 %x from <onnx, "Clip", "c">
// CHECK-NEXT:  nn.relu %x
// CHECK-NEXT:  nn.clip %x min 0.0 max 5.0
// CHECK-NEXT:  func.return %{{.*}}, %{{.*}}, %{{.*}}, %x
func.func @named(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = nn.clip %x min 0.0 max 6.0 from <onnx, "Clip", "c"> : tensor<4xf32>
  %b = nn.clip %x min 0.0 : tensor<4xf32>
  %c = nn.clip %x min 0.0 max 5.0 : tensor<4xf32>
  %d = nn.clip %x : tensor<4xf32>
  func.return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// The first bounds are the tighter ones: the second does nothing, even where the first has other uses.
// CHECK-LABEL: @first
// CHECK-NEXT:  [[R:%.*]] = nn.relu %x
// CHECK-NEXT:  [[S:%.*]] = nn.relu6 %y
// CHECK-NEXT:  func.return [[R]], [[R]], [[S]]
func.func @first(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = nn.relu %x : tensor<4xf32>
  %b = nn.relu %a : tensor<4xf32>
  %c = nn.relu6 %y : tensor<4xf32>
  %d = nn.relu %c : tensor<4xf32>
  func.return %a, %b, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Both as one: bounds within bounds, crossing ones, and ones that do not meet.
// CHECK-LABEL: @both
// CHECK-NEXT:  nn.relu6 %x : tensor<4xf32> loc(fused["a", "b"])
// CHECK-NEXT:  nn.clip %x min 1.0 max 2.0
// CHECK-NEXT:  nn.clip %x min 3.0 max 3.0
func.func @both(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = nn.relu %x : tensor<4xf32> loc("a")
  %b = nn.relu6 %a : tensor<4xf32> loc("b")
  %c = nn.clip %x max 2.0 : tensor<4xf32>
  %d = nn.clip %c min 1.0 max 7.0 : tensor<4xf32>
  %e = nn.clip %x min 1.0 max 2.0 : tensor<4xf32>
  %f = nn.clip %e min 3.0 max 4.0 : tensor<4xf32>
  func.return %b, %d, %f : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A second use of the wider bounds; bounds that exclude everything, for which min and max do not commute.
// CHECK-LABEL: @refused
// CHECK-NEXT:  nn.relu %x
// CHECK-NEXT:  nn.relu6 %a
// CHECK-NEXT:  nn.clip %x min 2.0 max 1.0
// CHECK-NEXT:  nn.relu
func.func @refused(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = nn.relu %x : tensor<4xf32>
  %b = nn.relu6 %a : tensor<4xf32>
  %c = nn.clip %x min 2.0 max 1.0 : tensor<4xf32>
  %d = nn.relu %c : tensor<4xf32>
  func.return %a, %b, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A quantization point between them is not crossed.
// CHECK-LABEL: @point
// CHECK-NEXT:  nn.relu
// CHECK-NEXT:  nn.observe
// CHECK-NEXT:  nn.relu6
func.func @point(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.relu %x : tensor<4xf32>
  %o = nn.observe %a as "l:0" by "minmax" : tensor<4xf32>
  %b = nn.relu6 %o : tensor<4xf32>
  func.return %b : tensor<4xf32>
}
