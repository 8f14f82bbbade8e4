-- functional.lua - torch.nn.functional: the computations of layers as functions. Most functions are
-- operators, which C code registers in this table. This file adds the functions that torch also has
-- under the same names, and those that are written in Lua.

local torch = require "tlua"
local lazy = require "tlua.lazy"

local F = torch["nn.functional"]

for name in ([[sigmoid tanh relu softmax log_softmax one_hot dropout embedding layer_norm batch_norm
   conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity
   pairwise_distance pixel_shuffle pixel_unshuffle channel_shuffle logsigmoid threshold_ relu_
   celu_ selu_ rrelu_ dropout_ prelu celu selu rrelu hardshrink bilinear pdist
   scaled_dot_product_attention]]):gmatch "[%w_]+" do
   if rawget(F, name) == nil then F[name] = rawget(torch, name) end
end

-- Maps files in modules/ to the functions that they define in Lua.
return lazy.load(F, lazy.modules("tlua.nn.modules", {
   FractionalMaxPool = [[fractional_max_pool2d fractional_max_pool3d
      fractional_max_pool2d_with_indices fractional_max_pool3d_with_indices]],
   multi_head_attention_forward = "multi_head_attention_forward",
   TripletMarginWithDistanceLoss = "triplet_margin_with_distance_loss",
}))
