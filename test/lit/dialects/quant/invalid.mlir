// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// CHECK: 'quant.qcast' op {{.*}}i8 is not a !quant.uniform type
func.func @f(%x: tensor<2xf32>) { %y = quant.qcast %x : tensor<2xf32> to tensor<2xi8> func.return }
// -----
// CHECK: 'quant.qcast' op {{.*}}f16 does not go with !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<2xf16>) { %y = quant.qcast %x : tensor<2xf16> to tensor<2x!quant.uniform<i8:f32, 0.5>> func.return }
// -----
// CHECK: 'quant.dcast' op {{.*}}f16 does not go with
func.func @f(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>) { %y = quant.dcast %x : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf16> func.return }
// -----
// CHECK: 'quant.scast' op {{.*}}i16 does not go with
func.func @f(%x: tensor<2xi16>) { %y = quant.scast %x : tensor<2xi16> to tensor<2x!quant.uniform<i8:f32, 0.5>> func.return }
// -----
// CHECK: size of axis 0 and number of scales differ: 2 and 3
func.func @f(%x: tensor<2xf32>) { %y = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.5, 1.0}>> func.return }
// -----
// CHECK: axis 1 is out of range for rank 1
func.func @f(%x: tensor<2xf32>) { %y = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32:1, {0.5, 0.5}>> func.return }
// -----
// CHECK: different ranks
func.func @f(%x: tensor<2xf32>) { %y = quant.qcast %x : tensor<2xf32> to tensor<2x1x!quant.uniform<i8:f32, 0.5>> func.return }
// -----
// CHECK: scale 1e-08 is out of the range of f16
func.func @f(%x: tensor<2x!quant.uniform<i8:f16, 1.0e-8>>) { func.return }
// -----
// CHECK: scale 0 is out of the range of f32
func.func @f(%x: tensor<2x!quant.uniform<i8:f32, 0.0>>) { func.return }
// -----
// CHECK: [-200, 127] is not a valid range of i8
func.func @f(%x: tensor<2x!quant.uniform<i8<-200:127>:f32, 0.5>>) { func.return }
// -----
// CHECK: 's8' is not a stored integer
func.func @f(%x: tensor<2x!quant.uniform<s8:f32, 0.5>>) { func.return }
// -----
// CHECK: 'i64' is not a stored integer
func.func @f(%x: tensor<2x!quant.uniform<i64:f32, 0.5>>) { func.return }
// -----
// CHECK: integers stand for floats, not for i8
func.func @f(%x: tensor<2x!quant.uniform<i8:i8, 0.5>>) { func.return }
// -----
// CHECK: there are no scales
func.func @f(%x: tensor<2x!quant.uniform<i8:f32:0, {}>>) { func.return }
// -----
// CHECK: size of axis 0 and its blocks differ: 6 and 4
func.func @f(%x: tensor<6x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{0.5, 0.5}, {0.5, 0.5}}>>) { %y = quant.dcast %x : tensor<6x2x!quant.uniform<i8:f32:{0:2, 1:1}, {{0.5, 0.5}, {0.5, 0.5}}>> to tensor<6x2xf32> func.return }
// -----
// CHECK: axis 2 is out of range for rank 2
func.func @f(%x: tensor<2x2x!quant.uniform<i8:f32:{2:1}, {0.5}>>) { %y = quant.dcast %x : tensor<2x2x!quant.uniform<i8:f32:{2:1}, {0.5}>> to tensor<2x2xf32> func.return }
// -----
// CHECK: rows of scales of equal length expected
func.func @f(%x: tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{0.5, 0.5}, {0.5}}>>) { func.return }
// -----
// CHECK: blocks need axes in ascending order, and sizes of 1 or more
func.func @f(%x: tensor<2x2x!quant.uniform<i8:f32:{1:1, 0:1}, {{0.5, 0.5}, {0.5, 0.5}}>>) { func.return }
// -----
// CHECK: [-500, 448] is not a valid range of f8E4M3FN
func.func @f(%x: tensor<2x!quant.uniform<f8E4M3FN<-500:448>:f32, 0.5>>) { func.return }
// -----
// CHECK: [2, 1] is not a valid range
func.func @f(%x: tensor<2x!quant.calibrated<f32<2.0:1.0>>>) { func.return }
// -----
// CHECK: i8 is not a type of floats
func.func @f(%x: tensor<2x!quant.calibrated<i8<0.0:1.0>>>) { func.return }
// -----
// CHECK: integers stand for floats, not for i8
func.func @f(%x: tensor<2x!quant.any<i8:i8>>) { func.return }
// -----
// CHECK: stores floats, and only integers have a cast to their storage
func.func @f(%x: tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>>) { %y = quant.scast %x : tensor<2x!quant.uniform<f8E4M3FN:f32, 0.5>> to tensor<2xi8> func.return }
