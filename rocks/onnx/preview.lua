-- preview.lua - operators of the domain ai.onnx.preview.

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
require "tlua.onnx.attention" -- this file defines support.share_heads

local M = {}

local narrow <const> = {float16 = true, bfloat16 = true}

function M.FlexAttention(node, q, k, v)
   local scale = node:float("scale", 1 / math.sqrt(q:size(4)))
   local number = node:int "softmax_precision"
   local dtype = number and schema.dtypes[number] or narrow[q.dtype] and "float32" or q.dtype
   local keys, contents = support.share_heads(node, k, q:size(2)),
      support.share_heads(node, v, q:size(2))
   local root = support.rounded(math.sqrt(scale), q.dtype)
   local scores = torch.matmul(q * root, (keys * root):transpose(-1, -2)):to(dtype)
   local function change(x, name)
      if not node:has(name) then return x end
      return node:run(node:graph(name), {x})[1]:to(dtype)
   end
   local p = change(change(scores, "score_mod"):softmax(-1), "prob_mod")
   return torch.matmul(p, contents:to(dtype)):to(v.dtype)
end

return M
