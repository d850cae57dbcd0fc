# way numpy
# seed 99846567
# NumPy: output 0 (float32[8]), element 2 is -5.6484619411474362e+37, not -inf (± 0)
# input cddfd23ee8afc53ef8a5d93f000080ffe33c2e3f3e8f5741b738a33fe6b1617f
module {
  func.func @main(%0: tensor<8xf32>) -> (tensor<8xf32>) {
    %1:4 = "shoal.adam"(%0, %0, %0, %0, %0, %0) : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
    "func.return"(%1#0) : (tensor<8xf32>) -> ()
  }
}
