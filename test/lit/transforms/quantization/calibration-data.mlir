// What calibration data has to say of itself, and what is told where it does not fit.

// RUN: rm -rf %t && mkdir -p %t/raw %t/empty
// RUN: printf 'abcdefghijk' > %t/raw/a.bin

// RUN: not amct-opt %s --quantize='data=%t/raw' 2>&1 | filecheck %s --check-prefix=FOLDER
// FOLDER: {{.*}}/raw: error: holds neither .npy files nor .npz files
// FOLDER-NEXT: hint: raw binaries are read with data-types, images with preprocess=imagenet (caffe, tf, yolo), or mean and std

// RUN: not amct-opt %s --quantize='data=%t/raw data-types=float32' 2>&1 | filecheck %s --check-prefix=SIZE
// SIZE: {{.*}}/raw/a.bin: error: holds 11 bytes, [1, 2] of float32 needs 8

// RUN: not amct-opt %s --quantize='data=%t/empty data-types=float32' 2>&1 | filecheck %s --check-prefix=EMPTY
// EMPTY: {{.*}}/empty: error: holds no files

// RUN: not amct-opt %s --quantize='data=%t/raw;%t/raw data-types=float32' 2>&1 | filecheck %s --check-prefix=FOLDERS
// FOLDERS: error: 2 folders for 1 inputs: x

// RUN: not amct-opt %s --quantize='data=%t/raw data-types=float32,float32' 2>&1 | filecheck %s --check-prefix=TYPES
// TYPES: {{.*}}/raw: error: 2 data types for 1 inputs: x

// RUN: not amct-opt %s --quantize='data=%t/raw input-shape=x:1,2' 2>&1 | filecheck %s --check-prefix=SHAPE
// SHAPE: error: input-shape of data applies to raw binaries, which require data-types

// RUN: not amct-opt %s --calibrate='data=%t/raw color=gray' 2>&1 | filecheck %s --check-prefix=HALF
// HALF: error: how the pixels of images become inputs must be specified
// HALF-NEXT: hint: preprocess=imagenet|caffe|tf|yolo, or scale, mean and std

// RUN: not amct-opt %s --quantize='data=%t/raw mean=0 std=1 resize=1x2 layout=NCHW data-types=int8' 2>&1 | filecheck %s --check-prefix=BOTH
// BOTH: error: data-types applies to raw binaries; preprocess, mean, std, resize and such apply to images: pass one group only

// RUN: not amct-opt %s --quantize='data=%t/raw mean=0 std=1 resize=1x2 layout=NCHW color=gray' 2>&1 | filecheck %s --check-prefix=IMAGE
// IMAGE: {{.*}}/raw: error: input 'x' has shape [1, 2], not that of an image

// RUN: not amct-opt %s --quantize='data=%t/calib.py' 2>&1 | filecheck %s --check-prefix=SCRIPT
// SCRIPT: {{.*}}/calib.py: error: is a Python file
// SCRIPT-NEXT: hint: name its function

func.func @main(%x: tensor<1x2xf32> {nn.name = "x"}) -> (tensor<1x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %q = nn.observe %x as "fc:0" by "minmax" : tensor<1x2xf32>
  %0 = nn.matmul %q, %w from <onnx, "MatMul", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
