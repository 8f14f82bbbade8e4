-- Tests that the functions, classes, methods and fields named in the documents of Torch7's packages
-- exist. Names that are missing on purpose are in the README's table "From Torch7".

local torch = require "torch7"
local nn = require "tlua.torch7.rnn"
local optim = require "tlua.torch7.optim"
local image = require "tlua.torch7.image"
local paths = require "tlua.torch7.paths"
local xlua = require "tlua.torch7.xlua"
local sys = require "tlua.torch7.sys"
local nngraph = require "tlua.torch7.nngraph"
local threads = require "tlua.torch7.threads"
local graph = nngraph.graph

local rows = {
   {"torch", torch, [[
      cat diag eye histc bhistc linspace logspace multinomial multinomialAlias multinomialAliasSetup ones rand randn
      range randperm reshape tril triu zeros abs sign acos asin atan atan2 ceil cos cosh exp floor log log1p neg
      cinv pow round sin sinh sqrt rsqrt tan tanh sigmoid trunc frac add csub mul clamp cmul cpow addcmul div lshift
      rshift fmod remainder bitand bitor bitxor cdiv clshift crshift cfmod cremainder cbitand cbitor cbitxor addcdiv
      dot addmv addr addmm addbmm baddbmm mv mm bmm ger lerp equal cross cumprod cumsum max min mean median mode
      kthvalue topk prod sort std sum var norm renorm dist numel trace cmax cmin conv2 xcorr2 conv3 xcorr3 gesv
      trtrs gels symeig eig svd inverse qr geqrf orgqr ormqr potrf pstrf potrs potri lt le gt ge eq ne all any
      Tensor DoubleTensor FloatTensor ByteTensor CharTensor ShortTensor IntTensor LongTensor HalfTensor
      DoubleStorage FloatStorage ByteStorage CharStorage ShortStorage IntStorage LongStorage HalfStorage Storage
      class type typename isTypeOf factory getmetatable getconstructortable newmetatable setmetatable typename2id
      version seed manualSeed initialSeed getRNGState setRNGState random uniform normal exponential cauchy logNormal
      geometric bernoulli Generator Timer tic toc CmdLine DiskFile MemoryFile PipeFile File save load serialize
      deserialize serializeToStorage deserializeFromStorage Tester TestSuite setdefaulttensortype
      getdefaulttensortype setnumthreads getnumthreads isTensor isStorage totable squeeze unsqueeze split chunk
      expand expandAs repeatTensor unfold select narrow transpose t nonzero gather scatter index view apply
      setheaptracking permute maskedSelect maskedFill maskedCopy contiguous fill zero copy clone nElement
      isSameSizeAs digamma lgamma erf erfinv packageLuaPath include isequal id pointer]]},
   {"Tensor methods", torch.Tensor(2), [[
      new clone contiguous type typeAs byte char short int long float double half cuda nDimension dim size stride
      storage isContiguous isSize isSameSizeAs nElement storageOffset set isSetTo copy fill zero resize resizeAs
      narrow sub select index indexCopy indexAdd indexFill gather scatter scatterAdd maskedSelect maskedCopy
      maskedFill nonzero expand expandAs repeatTensor squeeze view viewAs transpose t permute unfold apply map map2
      split chunk totable elementSize data cdata retain free random uniform normal cauchy exponential logNormal
      geometric bernoulli multinomial numel abs add mul sum lt le gt ge eq ne mean std var norm sort topk kthvalue
      max min median mode prod cumsum cumprod dot addmm mm mv addmv addr csub cmul cdiv pow sqrt log exp sigmoid
      tanh ceil floor round clamp sign neg cinv equal all any histc cross trace tril triu diag renorm dist unsqueeze
      addcmul addcdiv range randperm linspace logspace ones zeros rand randn reshape cat conv2 xcorr2 conv3 xcorr3
      gels gesv symeig eig svd inverse qr potrf potri potrs trtrs cmax cmin fmod remainder lerp frac trunc rsqrt
      log1p atan2 baddbmm addbmm bmm ger]]},
   {"storage", torch.DoubleStorage(2), [[
      copy fill resize size string totable elementSize new type byte char short int long float double retain free]]},
   {"DiskFile", torch.DiskFile("/dev/null", "r"), [[
      readBool readByte readChar readShort readInt readLong readFloat readDouble readString readObject writeBool
      writeByte writeChar writeShort writeInt writeLong writeFloat writeDouble writeString writeObject ascii
      autoSpacing binary clearError close noAutoSpacing synchronize pedantic position quiet seek seekEnd hasError
      isOpened isQuiet isReadable isWritable isAutoSpacing isBinary isReferenced referenced nativeEndianEncoding
      isLittleEndianCPU isBigEndianCPU bigEndianEncoding littleEndianEncoding longSize noBuffer]]},
   {"MemoryFile", torch.MemoryFile(), [[
      storage readInt longSize synchronize]]},
   {"Timer", torch.Timer(), [[
      time stop resume reset]]},
   {"CmdLine", torch.CmdLine(), [[
      argument option parse log silent text string addTime help default]]},
   {"Tester", torch.Tester(), [[
      add run disable assert assertlt assertgt assertle assertge asserteq assertalmosteq assertne assertTensorEq
      assertTensorNe assertTableEq assertTableNe assertError assertNoError assertErrorMsg assertErrorPattern
      assertErrorObj eq ne setEarlyAbort setRethrowErrors setSummaryOnly assertGeneralEq assertGeneralNe]]},
   {"nn", nn, [[
      Module Sequential Container Concat DepthConcat Parallel ConcatTable ParallelTable MapTable SplitTable
      JoinTable MixtureTable SelectTable NarrowTable FlattenTable PairwiseDistance DotProduct CosineDistance
      CAddTable CSubTable CMulTable CDivTable CMaxTable CMinTable Criterion MM MV Bottle Profile DontCast Convert
      NaN Copy Contiguous Identity ZipTable ZipTableOneToMany PartialLinear Bilinear LinearWeightNorm SparseLinear
      IndexLinear Linear Dropout SpatialDropout VolumetricDropout Abs Add CAdd Mul CMul Max Min Mean Sum Euclidean
      WeightedEuclidean Cosine Narrow Replicate Reshape View Select MaskedSelect Index Squeeze Unsqueeze Transpose
      Exp Log Square Sqrt Power Clamp Normalize Padding L1Penalty GradientReversal GPU TemporalDynamicKMaxPooling
      WhiteNoise OneHot PrintSize ZeroGrad Collapse Constant HardTanh HardShrink SoftShrink SoftMax SoftMin SoftPlus
      SoftSign LogSigmoid LogSoftMax Sigmoid Tanh ReLU ReLU6 PReLU RReLU CReLU ELU LeakyReLU GatedLinearUnit
      Threshold AddConstant MulConstant SpatialSoftMax SpatialLogSoftMax TemporalConvolution TemporalMaxPooling
      TemporalSubSampling LookupTable TemporalRowConvolution SpatialConvolution SpatialConvolutionMM
      SpatialConvolutionMap SpatialFullConvolution SpatialFullConvolutionMap SpatialDilatedConvolution
      SpatialDepthWiseConvolution SpatialConvolutionLocal SpatialLPPooling SpatialMaxPooling
      SpatialDilatedMaxPooling SpatialFractionalMaxPooling SpatialAveragePooling SpatialAdaptiveMaxPooling
      SpatialAdaptiveAveragePooling SpatialMaxUnpooling SpatialSubSampling SpatialUpSamplingNearest
      SpatialUpSamplingBilinear SpatialZeroPadding SpatialReflectionPadding SpatialReplicationPadding
      SpatialSubtractiveNormalization SpatialCrossMapLRN SpatialBatchNormalization SpatialDivisiveNormalization
      SpatialContrastiveNormalization SpatialClassNLLCriterion SpatialAutoCropMSECriterion BatchNormalization
      InstanceNormalization LayerNormalization WeightNorm VolumetricConvolution VolumetricFullConvolution
      VolumetricDilatedConvolution VolumetricMaxPooling VolumetricDilatedMaxPooling VolumetricFractionalMaxPooling
      VolumetricAveragePooling VolumetricMaxUnpooling VolumetricReplicationPadding VolumetricBatchNormalization
      PixelShuffle Kmeans AbsCriterion ClassNLLCriterion ClassSimplexCriterion CrossEntropyCriterion
      CosineEmbeddingCriterion DistKLDivCriterion BCECriterion HingeEmbeddingCriterion L1HingeEmbeddingCriterion
      L1Cost MSECriterion SmoothL1Criterion SoftMarginCriterion MarginCriterion MarginRankingCriterion
      MultiCriterion ParallelCriterion MultiMarginCriterion MultiLabelMarginCriterion MultiLabelSoftMarginCriterion
      WeightedMSECriterion CriterionTable ModuleCriterion DistanceRatioCriterion StochasticGradient Jacobian
      SparseJacobian hessian utils gModule JustElement JustTable ModuleFromCriterion AbstractRecurrent Recurrent
      LSTM FastLSTM GRU Recursor Recurrence AbstractSequencer Sequencer SeqLSTM SeqGRU SeqBRNN BiSequencer
      BiSequencerLM Repeater RecurrentAttention MaskZero TrimZero LookupTableMaskZero MaskZeroCriterion
      SeqReverseSequence SequencerCriterion RepeaterCriterion LinearNoBias CopyGrad Reinforce ReinforceBernoulli
      ReinforceCategorical ReinforceNormal VRClassReward BinaryClassReward SpatialGlimpse Decorator Serial ArgMax
      Clip Inception SpatialUniformCrop BinaryLogisticRegression SpatialBinaryLogisticRegression CAddTensorTable
      ReverseTable]]},
   {"Module", nn.Linear(2, 2), [[
      forward backward updateOutput updateGradInput accGradParameters accUpdateGradParameters
      sharedAccUpdateGradParameters zeroGradParameters updateParameters share clone type float double cuda half
      reset parameters getParameters training evaluate findModules listModules apply applyToModules replace
      clearState backwardUpdate __call__ output gradInput stepClone sharedClone reinforce gradParamClip weightDecay
      maxParamNorm momentumGradParameters updateGradParameters]]},
   {"Container", nn.Sequential(), [[
      add get size insert remove modules applyToModules rethrowErrors zeroGradParameters updateParameters training
      evaluate share reset parameters clearState]]},
   {"Criterion", nn.MSECriterion(), [[
      forward backward updateOutput updateGradInput clone type float double cuda output gradInput sizeAverage]]},
   {"nn.utils", nn.utils, [[
      recursiveType recursiveResizeAs recursiveFill recursiveAdd recursiveCopy addSingletonDimension contiguousView
      clear]]},
   {"Jacobian", nn.Jacobian, [[
      backward forward testJacobian testJacobianParameters testJacobianUpdateParameters testIO testAllUpdate]]},
   {"hessian", nn.hessian, [[
      enable]]},
   {"optim", optim, [[
      sgd asgd adam adamax adagrad adadelta rmsprop rprop nag lbfgs cg cmaes de FistaLS lswolfe polyinterp
      ConfusionMatrix Logger checkgrad]]},
   {"ConfusionMatrix", optim.ConfusionMatrix(3), [[
      add batchAdd zero updateValids mat valids unionvalids nclasses totalValid averageValid averageUnionValid
      farFrr]]},
   {"Logger", optim.Logger(), [[
      setNames add style setlogscale display plot]]},
   {"image", image, [[
      load save getSize loadPNG loadJPG loadPPM loadPGM savePNG saveJPG savePPM savePGM decompressJPG compressJPG
      decompressPNG crop translate scale rotate polar logpolar warp affinetransform hflip vflip flip minmax
      gaussianpyramid rgb2lab lab2rgb rgb2yuv yuv2rgb rgb2y rgb2hsl hsl2rgb rgb2hsv hsv2rgb rgb2nrgb y2jet drawText
      drawRect toDisplayTensor display window lena fabio gaussian gaussian1D laplacian colormap jetColormap convolve
      lcn erode dilate]]},
   {"paths", paths, [[
      filep dirp basename dirname concat extname cwd execdir tmpname dir files iterfiles iterdirs thisfile mkdir
      rmdir rmall uname findprogram home is_win]]},
   {"xlua", xlua, [[
      progress clear clearall print log error unpack unpack_class usage Profiler OptionParser who lua_print]]},
   {"sys", sys, [[
      clock tic toc execute fexecute uname OS ls ll la lla pwd prefix sleep usleep COLORS split dirname basename
      concat fpath filep dirp isNaN]]},
   {"graph", graph, [[
      dot]]},
   {"nngraph", nngraph, [[
      Node setDebug annotateNodes simple_print display nest]]},
   {"cutorch", require "tlua.torch7.cutorch", [[
      synchronize synchronizeAll setDevice getDevice getDeviceCount getMemoryUsage seed seedAll initialSeed
      manualSeed manualSeedAll getRNGState setRNGState getState withDevice reserveStreams getNumStreams setStream
      getStream setDefaultStream streamWaitFor streamWaitForMultiDevice streamBarrier streamBarrierMultiDevice
      streamSynchronize setPeerToPeerAccess getPeerToPeerAccess setKernelPeerToPeerAccess getKernelPeerToPeerAccess
      getDeviceProperties]]},
   {"threads", threads, [[Threads Thread Mutex Condition Queue queue serialize safe]]},
   {"a pool of threads", threads.Threads, [[
      specific addjob dojob synchronize terminate serialization acceptsjob hasjob haserror]]},
   {"tds", require "tlua.torch7.tds", [[Hash Vec AtomicCounter]]},
}

describe("The documents of Torch7 name nothing of", function()
   for _, row in ipairs(rows) do
      it(row[1] .. " that is missing here", function()
         local missing = {}
         for name in row[3]:gmatch "%S+" do
            local known, value = pcall(function() return row[2][name] end)
            if not known or value == nil then missing[#missing + 1] = name end
         end
         assert.equal("", table.concat(missing, " "))
      end)
   end
end)
