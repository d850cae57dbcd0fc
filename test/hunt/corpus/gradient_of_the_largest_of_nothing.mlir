# way gradient
# seed 1
# found by the hunt
# input 
module {
  func.func @main(%0: tensor<0xf64>) -> (tensor<0xf64>) {
    %1:2 = "chlo.top_k"(%0) {k = 0 : i64} : (tensor<0xf64>) -> (tensor<0xf64>, tensor<0xi32>)
    "func.return"(%1#0) : (tensor<0xf64>) -> ()
  }
}
