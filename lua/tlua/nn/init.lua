-- init.lua - the index of torch.nn: maps names to files. A file is loaded on first use. The
-- functions of torch.nn.init, which fill parameters with initial values, are in initializers.lua.

local lazy = require "tlua.lazy"

-- Maps files in modules/ to their classes. A file returns either one class or a table of several.
local files = lazy.modules("tlua.nn.modules", {
   Module = "Module",
   Sequential = "Sequential",
   ModuleList = "ModuleList",
   ModuleDict = "ModuleDict",
   ParameterList = "ParameterList",
   ParameterDict = "ParameterDict",

   Identity = "Identity",
   Linear = "Linear",
   Bilinear = "Bilinear",
   Embedding = "Embedding",
   EmbeddingBag = "EmbeddingBag",
   Flatten = "Flatten",
   Unflatten = "Unflatten",
   Conv = "Conv1d Conv2d Conv3d",
   ConvTranspose = "ConvTranspose1d ConvTranspose2d ConvTranspose3d",
   Lazy = [[LazyLinear LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d
      LazyConvTranspose3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyInstanceNorm1d
      LazyInstanceNorm2d LazyInstanceNorm3d]],
   Pool = [[MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d
      AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
      AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d]],
   FractionalMaxPool = "FractionalMaxPool2d FractionalMaxPool3d",
   MaxUnpool = "MaxUnpool1d MaxUnpool2d MaxUnpool3d",
   BatchNorm = [[BatchNorm1d BatchNorm2d BatchNorm3d
      InstanceNorm1d InstanceNorm2d InstanceNorm3d]],
   SyncBatchNorm = "SyncBatchNorm",
   LayerNorm = "LayerNorm",
   RMSNorm = "RMSNorm",
   RotaryEmbedding = "RotaryEmbedding",
   GroupNorm = "GroupNorm",
   LocalResponseNorm = "LocalResponseNorm",
   CrossMapLRN2d = "CrossMapLRN2d",
   Dropout = "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout",
   Pad = [[ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d ConstantPad3d
      ReflectionPad1d ReflectionPad2d ReflectionPad3d
      ReplicationPad1d ReplicationPad2d ReplicationPad3d
      CircularPad1d CircularPad2d CircularPad3d]],
   Resample = [[Upsample UpsamplingNearest2d UpsamplingBilinear2d PixelShuffle PixelUnshuffle
      ChannelShuffle Fold Unfold]],
   PReLU = "PReLU",
   activations = [[ReLU ReLU6 LeakyReLU RReLU ELU SELU CELU GELU SiLU Mish Softplus Softsign
      Tanh Tanhshrink Softshrink Hardshrink Hardtanh Hardsigmoid Hardswish Sigmoid LogSigmoid
      Threshold GLU Softmax Softmax2d LogSoftmax Softmin]],
   losses = [[MSELoss L1Loss SmoothL1Loss HuberLoss CrossEntropyLoss NLLLoss NLLLoss2d BCELoss
      BCEWithLogitsLoss KLDivLoss PoissonNLLLoss GaussianNLLLoss HingeEmbeddingLoss
      CosineEmbeddingLoss MarginRankingLoss MultiMarginLoss MultiLabelMarginLoss
      MultiLabelSoftMarginLoss SoftMarginLoss TripletMarginLoss CTCLoss]],
   TripletMarginWithDistanceLoss = "TripletMarginWithDistanceLoss",
   AdaptiveLogSoftmaxWithLoss = "AdaptiveLogSoftmaxWithLoss",
   LinearCrossEntropyLoss = "LinearCrossEntropyLoss",
   LinearCrossEntropyOptions = "LinearCrossEntropyOptions",
   Distance = "CosineSimilarity PairwiseDistance",
   RNN = "RNNBase RNN LSTM GRU",
   RNNCell = "RNNCellBase RNNCell LSTMCell GRUCell",
   MultiheadAttention = "MultiheadAttention",
   Transformer = [[Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder
      TransformerDecoderLayer]],
})

-- The layers of Torch7 that PyTorch lacks. Each file defines a family of layers.
for field, file in pairs(lazy.modules("tlua.torch7", {
   containers = "Container Concat ConcatTable ParallelTable MapTable",
   tables = [[JoinTable SplitTable SelectTable NarrowTable FlattenTable CAddTable CSubTable
      CMulTable CDivTable]],
   shapes = "View Reshape Squeeze Unsqueeze Transpose Replicate Padding Copy",
   arithmetic = "Mul Add MulConstant AddConstant",
})) do
   files[field] = file
end

-- Parameters and buffers, which a module registers when they are assigned to its fields.
files.Parameter = "tlua.nn.Parameter"
files.Buffer = "tlua.nn.Buffer"
files.UninitializedParameter = "tlua.nn.Uninitialized"
files.UninitializedBuffer = "tlua.nn.Uninitialized"

-- Parts of torch.nn that have their own folders or files.
files.DataParallel = "tlua.nn.parallel.DataParallel"
files.functional = "tlua.nn.functional"
files.init = "tlua.nn.initializers"
files.utils = "tlua.nn.utils"
files.parallel = "tlua.nn.parallel"
files.attention = "tlua.nn.attention"
files.modules = "tlua.nn.modules"
files.parameter = "tlua.nn" -- an alias of torch.nn, so that nn.parameter.Parameter is nn.Parameter

return lazy.load({}, files)
