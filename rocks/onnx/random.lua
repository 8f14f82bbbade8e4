-- random.lua - operators that return random numbers. The numbers come from tlua's generator. If a
-- node has the attribute `seed`, it uses a generator of its own.

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"

local M = {}

local function generator(node)
   local seed = node:float "seed"
   if not seed then return nil end
   return torch.Generator():manual_seed(math.floor(seed))
end

local function dtype_of(node, like)
   local number = node:int "dtype"
   return number and schema.dtypes[number] or like and like.dtype or "float32"
end

local function uniform(node, shape, like)
   local low, high = node:float("low", 0), node:float("high", 1)
   local x = torch.rand(shape, {generator = generator(node)})
   return (x * (high - low) + low):to(dtype_of(node, like))
end

local function normal(node, shape, like)
   local x = torch.randn(shape, {generator = generator(node)})
   return (x * node:float("scale", 1) + node:float("mean", 0)):to(dtype_of(node, like))
end

function M.RandomUniform(node) return uniform(node, node:need("ints", "shape")) end
function M.RandomNormal(node) return normal(node, node:need("ints", "shape")) end
function M.RandomUniformLike(node, x) return uniform(node, support.shape(x), x) end
function M.RandomNormalLike(node, x) return normal(node, support.shape(x), x) end

function M.Bernoulli(node, p)
   local x = torch.rand(support.shape(p), {generator = generator(node)}):to(p.device)
   return x:lt(p:to "float32"):to(dtype_of(node, p))
end

function M.Multinomial(node, logits)
   local number = node:int("dtype", 6)
   local drawn = torch.multinomial(logits:softmax(-1), node:int("sample_size", 1),
      {replacement = true, generator = generator(node)})
   return (drawn - 1):to(schema.dtypes[number])
end

return M
