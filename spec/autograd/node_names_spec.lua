-- Tests the names of graph nodes. The expected names were recorded from PyTorch 2.15 by type(y.grad_fn).__name__ for
-- the same calls. PyTorch's names end with the number of an operator's overload; tlua's always end with 0.

local torch = require "tlua"
local F <const> = torch.nn.functional

describe("the node that a call ends with has PyTorch's name", function()
   local x = torch.rand(4, 4):add_(0.1):requires_grad_()
   local y = torch.rand(4, 4):add_(0.1):requires_grad_()
   local image = torch.rand(1, 2, 6, 6):requires_grad_()
   local kernel = torch.rand(3, 2, 3, 3):requires_grad_()
   local rows = torch.tensor {1, 2}
   local labels = torch.tensor {1, 2, 3, 4}
   local mask = torch.eye(4):bool()

   local calls <const> = {
      {"Mean", function() return x:mean() end},
      {"Mean", function() return x:mean(1) end},
      {"Sum", function() return x:sum() end},
      {"Std", function() return x:std() end},
      {"Var", function() return x:var() end},
      {"LinalgVectorNorm", function() return x:norm() end},
      {"Prod", function() return x:prod() end},
      {"Max", function() return x:max() end},
      {"Max", function() return (x:max(1)) end},
      {"Min", function() return x:min() end},
      {"Amax", function() return x:amax(1) end},
      {"Logsumexp", function() return x:logsumexp(1) end},
      {"Trace", function() return x:trace() end},
      {"Softmax", function() return x:softmax(1) end},
      {"LogSoftmax", function() return x:log_softmax(1) end},
      {"Relu", function() return x:relu() end},
      {"Gelu", function() return F.gelu(x) end},
      {"Silu", function() return F.silu(x) end},
      {"Glu", function() return F.glu(x) end},
      {"PreluKernel", function() return F.prelu(x, y[1][{{1, 1}}]) end},
      {"Add", function() return x + y end},
      {"Mul", function() return x * y end},
      {"Div", function() return x / y end},
      {"Pow", function() return x ^ 2 end},
      {"Exp", function() return x:exp() end},
      {"Log1P", function() return x:log1p() end},
      {"Clamp", function() return x:clamp(0, 1) end},
      {"Lerp", function() return x:lerp(y, 0.5) end},
      {"Addcmul", function() return x:addcmul(x, y) end},
      {"Mm", function() return x:matmul(y) end},
      {"Mv", function() return x:mv(y[1]) end},
      {"Mv", function() return x:matmul(y[1]) end},
      {"Squeeze", function() return x[1]:matmul(y) end},
      {"Dot", function() return x[1]:dot(y[1]) end},
      {"Bmm", function() return x:unsqueeze(1):bmm(y:unsqueeze(1)) end},
      {"Addmm", function() return F.linear(x, y, y[1]) end},
      {"Convolution", function() return F.conv2d(image, kernel) end},
      {"MaxPool2DWithIndices", function() return (F.max_pool2d(image, 2)) end},
      {"AvgPool2D", function() return F.avg_pool2d(image, 2) end},
      {"AdaptiveAvgPool2D", function() return F.adaptive_avg_pool2d(image, 2) end},
      {"NativeLayerNorm", function() return F.layer_norm(x, {4}) end},
      {"NativeGroupNorm", function() return F.group_norm(image, 2) end},
      {"Embedding", function() return F.embedding(rows, x) end},
      {"NllLoss", function() return F.cross_entropy(x, labels) end},
      {"NllLoss", function() return F.nll_loss(x, labels) end},
      {"NllLoss2D", function() return F.cross_entropy(image, torch.ones(1, 6, 6, {dtype = "int64"})) end},
      {"MseLoss", function() return F.mse_loss(x, y) end},
      {"MseLoss", function() return F.mse_loss(x, y, {reduction = "none"}) end},
      {"Mean", function() return F.l1_loss(x, y) end},
      {"SmoothL1Loss", function() return F.smooth_l1_loss(x, y) end},
      {"HuberLoss", function() return F.huber_loss(x, y) end},
      {"BinaryCrossEntropy", function() return F.binary_cross_entropy(x * 0.5, mask:float()) end},
      {"BinaryCrossEntropyWithLogits", function() return F.binary_cross_entropy_with_logits(x, mask:float()) end},
      {"View", function() return x:view(16) end},
      {"T", function() return x:t() end},
      {"Transpose", function() return x:transpose(1, 2) end},
      {"Permute", function() return x:permute(2, 1) end},
      {"Unsqueeze", function() return x:unsqueeze(1) end},
      {"Expand", function() return x:unsqueeze(1):expand(3, 4, 4) end},
      {"Repeat", function() return x:repeat_tensor(2, 1) end},
      {"Cat", function() return torch.cat {x, y} end},
      {"Stack", function() return torch.stack {x, y} end},
      {"Split", function() return x:split(2)[1] end},
      {"Split", function() return x:chunk(2)[2] end},
      {"Unbind", function() return x:unbind()[1] end},
      {"Roll", function() return x:roll(1, 1) end},
      {"Flip", function() return x:flip(1) end},
      {"Select", function() return x[1] end},
      {"Index", function() return x[rows] end},
      {"IndexSelect", function() return x:index_select(1, rows) end},
      {"MaskedFill", function() return x:masked_fill(mask, 0) end},
      {"MaskedSelect", function() return x:masked_select(mask) end},
      {"Where", function() return torch.where(mask, x, y) end},
      {"Cumsum", function() return x:cumsum(1) end},
      {"Sort", function() return (x:sort(1)) end},
      {"Topk", function() return (x:topk(2)) end},
      {"Clone", function() return x:clone() end},
      {"ToCopy", function() return x:double() end},
      {"Tril", function() return x:tril() end},
      {"Im2Col", function() return F.unfold(image, 2) end},
      {"Addbmm", function() return x:addbmm(y:unsqueeze(1), y:unsqueeze(1)) end},
      {"Addr", function() return x:addr(y[1], y[2]) end},
      {"Dist", function() return x:dist(y) end},
      {"Cdist", function() return torch.cdist(x, y) end},
      {"Logit", function() return x:logit() end},
      {"NanToNum", function() return x:nan_to_num() end},
      {"Ldexp", function() return x:ldexp(y) end},
      {"MaskedScatter", function() return x:masked_scatter(mask, y) end},
      {"Take", function() return x:take(rows) end},
      {"Rot90", function() return x:rot90() end},
      {"BlockDiag", function() return torch.block_diag(x, y) end},
      {"Aminmax", function() return (x:aminmax()) end},
      {"Celu", function() return F.celu(x) end},
      {"Div", function() return F.softsign(x) end},
      {"Sub", function() return F.tanhshrink(x) end},
      {"RreluWithNoise", function() return F.rrelu(x) end},
      {"Norm", function() return F.pairwise_distance(x, y) end},
      {"SoftMarginLoss", function() return F.soft_margin_loss(x, mask:float() * 2 - 1) end},
      {"MultiMarginLoss", function() return F.multi_margin_loss(x, labels) end},
      {"EmbeddingBag", function() return F.embedding_bag(rows, x, torch.tensor {1}) end},
      {"AdaptiveMaxPool2D", function() return (F.adaptive_max_pool2d(image, 2)) end},
      {"PixelUnshuffle", function() return F.pixel_unshuffle(image, 2) end},
      {"ChannelShuffle", function() return F.channel_shuffle(image, 2) end},
      {"AffineGridGenerator", function()
         return F.affine_grid(torch.rand(1, 2, 3):requires_grad_(), {1, 2, 4, 4})
      end},
      {"LinalgMatrixExp", function() return torch.linalg.matrix_exp(x) end},
      {"LinalgMatrixExp", function() return x:matrix_exp() end},
      {"Rsub", function() return 2 - x end},
      {"Mul", function() return 2 / x end},
      {"UnsafeView", function() return x:unsqueeze(1):matmul(y) end},
      {"UnsafeView", function() return F.linear(x:unsqueeze(1), y) end},
      {"Squeeze", function() return F.linear(x[1], y) end},
      {"View", function() return x:reshape(-1) end},
      {"UnsafeView", function() return x:t():reshape(-1) end},
      {"ReshapeAlias", function() return x:narrow(2, 1, 2):reshape(-1, 2, 1) end},
      {"Neg", function() return F.cross_entropy(x, y:softmax(2):detach(), {reduction = "sum"}) end},
      {"StdMean", function() return (torch.std_mean(x)) end},
      {"StdMean", function() return select(2, torch.std_mean(x)) end},
      {"VarMean", function() return select(2, torch.var_mean(x, 1)) end},
      {"Std", function() return x:std(false) end},
      {"Aminmax", function() return select(2, x:aminmax()) end},
      {"Squeeze", function() return x:quantile(0.3) end},
      {"LinalgCross", function() return torch.cross(torch.rand(2, 3):requires_grad_(), torch.rand(2, 3)) end},
      {"LinalgCholeskyEx", function() return torch.linalg.cholesky(x:matmul(x:t()) + torch.eye(4)) end},
      {"LinalgSolveEx", function() return torch.linalg.solve(x, y[1]) end},
      {"LinalgLu", function() return select(2, torch.linalg.lu(x)) end},
      {"LinalgSolveTriangular", function() return torch.linalg.solve_triangular(x, y, {upper = false}) end},
      {"Where", function() return torch.logdet(x) end},
      {"MultilabelMarginLoss", function()
         return F.multilabel_margin_loss(x, torch.tensor {{1, -1, -1, -1}, {2, -1, -1, -1}, {3, -1, -1, -1},
            {4, -1, -1, -1}})
      end},
      {"Div", function() return F.cross_entropy(x, y:detach():softmax(2)) end},
      {"Div", function() return F.kl_div(x, y:detach(), {reduction = "batchmean"}) end},
      {"Div", function() return x:div(y, {rounding_mode = "floor"}) end},
      {"Squeeze", function() return F.conv2d(image[1], kernel) end},
      {"Squeeze", function() return (F.max_pool1d(x:unsqueeze(1), 2)) end},
      {"Squeeze", function() return F.avg_pool1d(x:unsqueeze(1), 2) end},
      {"UpsampleNearest2D", function() return F.interpolate(image, 8) end},
      {"UpsampleBilinear2D", function() return F.interpolate(image, 8, nil, "bilinear") end},
      {"UpsampleBicubic2D", function() return F.interpolate(image, 8, nil, "bicubic") end},
      {"UpsampleLinear1D", function() return F.interpolate(image[1], 8, nil, "linear") end},
      {"AdaptiveAvgPool2D", function() return F.interpolate(image, 3, nil, "area") end},
      {"GridSampler2D", function() return F.grid_sample(image, torch.zeros(1, 2, 2, 2)) end},
      {"ReflectionPad2D", function() return F.pad(image, {1, 1, 1, 1}, "reflect") end},
      {"ReplicationPad1D", function() return F.pad(image[1], {1, 1}, "replicate") end},
      {"Pdist", function() return F.pdist(x) end},
      {"Renorm", function() return x:renorm(2, 1, 1) end},
      {"IndexReduce", function() return x:index_reduce(1, rows, y[{{1, 2}}], "amax") end},
      {"IndexFill", function() return x:index_fill(1, rows, torch.tensor(2.0)) end},
      {"SelectScatter", function() return x:select_scatter(y[1], 1, 1) end},
      {"DiagonalScatter", function() return x:diagonal_scatter(y[1]) end},
      {"Deg2Rad", function() return x:deg2rad() end},
      {"SpecialI0E", function() return torch.special.i0e(x) end},
      {"SpecialBesselJ0", function() return torch.special.bessel_j0(x) end},
      {"SpecialEntr", function() return torch.special.entr(x) end},
      {"SpecialXlog1Py", function() return torch.special.xlog1py(x, y) end},
      -- From here on, the rows have in-place operators.
      {"Clamp", function() return (x * 1):clamp_(0, 1) end},
      {"Mvlgamma", function() return (x + 3):mvlgamma_(2) end},
      {"NanToNum", function() return (x * 1):nan_to_num_() end},
      {"MaskedScatter", function() return (x * 1):masked_scatter_(mask, y) end},
      {"T", function() return (x * 1):t_() end},
   }

   for i, call in ipairs(calls) do
      it(("%s (%d)"):format(call[1], i), function()
         assert.equal("<" .. call[1] .. "Backward0>", tostring(call[2]().grad_fn))
      end)
   end

   it("without Backward0, where PyTorch's has none", function()
      local z = x * 1
      z[1] = 0
      assert.equal("<CopySlices>", tostring(z.grad_fn))
      assert.equal("<CopyBackwards>", tostring((x * 1):copy_(y).grad_fn))
      local Twice = torch.class("Twice", torch.autograd.Function)
      function Twice.forward(_, v) return v * 2 end
      function Twice.backward(_, grad) return grad * 2 end
      assert.equal("<TwiceBackward>", tostring(Twice:apply(x).grad_fn))
      local net, seen = torch.nn.Identity(), nil
      net:register_full_backward_hook(function() seen = true end)
      local out = net(x)
      assert.equal("<BackwardHookFunctionBackward>", tostring(out.grad_fn))
      out:sum():backward()
      assert.is_true(seen)
   end)

   it("which the node keeps when its tensor is used again", function()
      local mean = x:mean()
      local same = mean:expand_as(mean)
      assert.equal("<MeanBackward0>", tostring(mean.grad_fn))
      assert.equal("<ExpandBackward0>", tostring(same.grad_fn))
      assert.equal("<MulBackward0>", tostring((x * 1).grad_fn))
      -- An operator that returns its argument itself, instead of a new tensor, keeps the argument's node and its name.
      local h = x:relu()
      F.dropout(h, 0.5, false)
      assert.equal("<ReluBackward0>", tostring(h.grad_fn))
   end)
end)
