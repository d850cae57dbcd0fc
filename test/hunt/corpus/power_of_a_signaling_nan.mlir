# way cpu
# seed 302052508
# base, 2 threads: output 0 (float16[3, 4, 2]), element 10 is 1, not -nan (± 0)
# input f85b0000000000000000000000000000000000000000003c00540000000000400000003cf85b003c0000000000000000
# input ef5cfb3b46c423c185d4b6be449eaebd590d84bf47fc4a3f0654dac0178ced40a8ffe13fb16a3b3f14f393bf2af3adbc
module {
  func.func @main(%0: tensor<3x4x2xf16>, %1: tensor<3x4x2xf16>) -> (tensor<3x4x2xf16>) {
    %2 = "stablehlo.power"(%1, %0) : (tensor<3x4x2xf16>, tensor<3x4x2xf16>) -> tensor<3x4x2xf16>
    "func.return"(%2) : (tensor<3x4x2xf16>) -> ()
  }
}
