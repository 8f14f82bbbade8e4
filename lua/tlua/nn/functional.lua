-- functional.lua - torch.nn.functional: what layers compute, as functions. Most are operators,
-- which the C half hands over by this name; here are added those of `torch` that are found in both
-- places.

local torch = require "tlua"

local F = torch["nn.functional"]

for name in ([[sigmoid tanh relu softmax log_softmax one_hot dropout embedding layer_norm batch_norm
   conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity
   pairwise_distance pixel_shuffle pixel_unshuffle channel_shuffle logsigmoid threshold_ relu_
   celu_ selu_ rrelu_ dropout_ prelu celu selu rrelu hardshrink bilinear pdist
   scaled_dot_product_attention]]):gmatch "[%w_]+" do
   if F[name] == nil then F[name] = torch[name] end
end

return F
