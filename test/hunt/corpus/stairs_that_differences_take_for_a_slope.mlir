# way gradient
# seed 99041699
# gradient: the slope is -2.67811449457, differences say -15856.937673 (± 1.81e-09)
# input a247107ff25ff6bf805991288458ddbf380f3d41e5efe33f8adb11b5988af5bf28471b64161eddbfa854bf3ceae3eabf60c28f0f582cbbbfd88ee8b162b3e7bf30b6077daad6e9bf387412c5831be9bf6e30e14393a8f2bf222b5394dbe2f03fc2fa471d8dc4f93faa8c2a04bf4cf6bf420388cc8899f6bf5c3fe3d86dc1fdbf
# input 60214cf63229efbf882ef18e19eceb3f005c8c7ef72c703fa017766b9434e83f00683d1fa221d9bfd4df69699685e33ff83d5af9b7e9fbbf54b569418b2cff3fcc39b37a4a1ce5bfe11c4a0889982040a0452ed0de04cb3fb806758408d0db3f7ca5f67159b4f6bf22b1e073dd7efcbfe6328fac137226c0441365053718e0bf
module {
  func.func @main(%0: tensor<4x4xf64>, %1: tensor<4x4xf64>) -> (tensor<4x4xf64>, tensor<4x4xf64>) {
    %2 = "stablehlo.multiply"(%0, %0) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
    %3 = "stablehlo.divide"(%2, %1) : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
    %4 = "stablehlo.floor"(%3) : (tensor<4x4xf64>) -> tensor<4x4xf64>
    "func.return"(%4, %0) : (tensor<4x4xf64>, tensor<4x4xf64>) -> ()
  }
}
