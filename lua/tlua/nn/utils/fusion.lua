-- fusion.lua - torch.nn.utils.fuse_*: folds a batch normalisation in evaluation mode into the layer
-- before it, which then computes the same result in one step.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local Module = require "tlua.nn.modules.Module"
local Parameter = require "tlua.nn.Parameter"

local M = {}

-- Returns two vectors (C), scale and shift. The batch normalisation computes x * scale + shift.
local function scale_and_shift(mean, variance, eps, weight, bias)
   local scale = (variance + eps):rsqrt()
   if weight then scale = scale * weight end
   local shift = -mean * scale
   if bias then shift = shift + bias end
   return scale, shift
end

local function parameter(value, like)
   return Parameter(value:to(like.dtype):detach(), {requires_grad = like.requires_grad})
end

-- Returns the layer's weight, multiplied by scale along a dimension, and its new bias.
local function fold(weight, bias, dim, scale, shift)
   local _ <close> = torch.no_grad()
   local shape = {}
   for i = 1, weight:dim() do shape[i] = i == dim and -1 or 1 end
   local folded = bias and bias * scale + shift or shift
   if folded:numel() == 1 then folded = folded:expand(weight:size(dim)):clone() end
   return parameter(weight * scale:reshape(shape), weight), parameter(folded, bias or weight)
end

local take_conv = args.signature [[nn.utils.fuse_conv_bn_weights(conv_w: tensor, conv_b: tensor?,
   bn_rm: tensor, bn_rv: tensor, bn_eps: number, bn_w: tensor?, bn_b: tensor?,
   transpose: boolean = false)]]

--- Returns weight and bias of a convolution that replaces a convolution and the batch normalisation
--- after it.
---@param conv_w Tensor
---@param conv_b? Tensor  (C)
---@param bn_rm Tensor  running mean (C)
---@param bn_rv Tensor  running variance (C)
---@param bn_eps number
---@param bn_w? Tensor  (C)
---@param bn_b? Tensor  (C)
---@param transpose? boolean  whether it is a transposed convolution
---@return Tensor weight
---@return Tensor bias
function M.fuse_conv_bn_weights(...)
   local a = take_conv(...)
   local scale, shift = scale_and_shift(a.bn_rm, a.bn_rv, a.bn_eps, a.bn_w, a.bn_b)
   return fold(a.conv_w, a.conv_b, a.transpose and 2 or 1, scale, shift)
end

local take_linear = args.signature [[nn.utils.fuse_linear_bn_weights(linear_w: tensor,
   linear_b: tensor?, bn_rm: tensor, bn_rv: tensor, bn_eps: number, bn_w: tensor?, bn_b: tensor?)]]

--- Returns weight and bias of a linear layer that replaces a linear layer and the batch
--- normalisation after it.
---@param linear_w Tensor  (C, in)
---@param linear_b? Tensor  (C)
---@param bn_rm Tensor  running mean (C)
---@param bn_rv Tensor  running variance (C)
---@param bn_eps number
---@param bn_w? Tensor  (C)
---@param bn_b? Tensor  (C)
---@return Tensor weight
---@return Tensor bias
function M.fuse_linear_bn_weights(...)
   local a = take_linear(...)
   local scale, shift = scale_and_shift(a.bn_rm, a.bn_rv, a.bn_eps, a.bn_w, a.bn_b)
   return fold(a.linear_w, a.linear_b, 1, scale, shift)
end

local function check(title, layer, norm)
   for i, what in ipairs {"layer", "bn"} do
      local module = i == 1 and layer or norm
      if not class.isinstance(module, Module) then
         args.refuse(title, what, "a module", module)
      end
      if module.training then
         torch.raise(("%s: %s: expected a module in evaluation mode, got %s in training mode")
            :format(title, what, torch.type(module)))
      end
   end
   if not torch.is_tensor(norm.running_mean) or not torch.is_tensor(norm.running_var) then
      torch.raise(("%s: bn: %s has no running statistics"):format(title, torch.type(norm)))
   end
end

local function replace(layer, weight, bias)
   local fused = layer:clone()
   rawset(fused, "weight", nil)
   rawset(fused, "bias", nil)
   fused.weight, fused.bias = weight, bias
   return fused
end

--- Returns a convolution that replaces `conv` and then `bn`, both in evaluation mode.
---@param conv nn.Module
---@param bn nn.Module
---@param transpose? boolean  whether conv is a transposed convolution of one group
---@return nn.Module
function M.fuse_conv_bn_eval(conv, bn, transpose)
   check("nn.utils.fuse_conv_bn_eval", conv, bn)
   return replace(conv, M.fuse_conv_bn_weights(conv.weight, conv.bias, bn.running_mean,
      bn.running_var, bn.eps, bn.weight, bn.bias, transpose))
end

--- Returns a linear layer that replaces `linear` and then `bn`, both in evaluation mode.
---@param linear nn.Linear
---@param bn nn.Module  a norm with as many features as linear's output, or with one
---@return nn.Linear
function M.fuse_linear_bn_eval(linear, bn)
   check("nn.utils.fuse_linear_bn_eval", linear, bn)
   if bn.num_features ~= linear.out_features and bn.num_features ~= 1 then
      torch.raise(("nn.utils.fuse_linear_bn_eval: bn: expected %d features or 1, got %d"):format(
         linear.out_features, bn.num_features))
   end
   return replace(linear, M.fuse_linear_bn_weights(linear.weight, linear.bias, bn.running_mean,
      bn.running_var, bn.eps, bn.weight, bn.bias))
end

return M
