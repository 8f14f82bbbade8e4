-- attention.lua - attention operators with masks, caches and groups of heads, and related operators
-- such as rotary embeddings.

local torch = require "tlua"
local schema = require "tlua.onnx.schema"
local support = require "tlua.onnx.support"
local values = require "tlua.onnx.values"

local cast <const> = support.cast

local M = {}

-- Reshapes {batch, length, heads * size} to {batch, heads, length, size}.
local function split_heads(node, x, heads, name)
   if not heads or heads < 1 or x:size(3) % heads ~= 0 then
      node:fail("attribute %s: expected a number that divides %d, got %s", name, x:size(3),
         tostring(heads))
   end
   return x:reshape(x:size(1), x:size(2), heads, -1):transpose(2, 3)
end

-- Converts a mask to a bias for the scores: 0 where the mask is true and the key may be attended
-- to, and minus infinity elsewhere.
local function as_bias(allowed, dtype)
   local zeros = torch.zeros(support.shape(allowed), {dtype = dtype, device = allowed.device})
   return zeros:masked_fill(torch.logical_not(allowed), -math.huge)
end

-- Returns a tensor that has, for each query and key, the number of positions by which the key lies
-- before the query. `offset` is the position of the first query: a number, or a tensor {batch} with
-- one number for each example.
local function distances(queries, keys, offset, device)
   local i = torch.arange(0, queries, {dtype = "int64", device = device}):unsqueeze(2)
   local j = torch.arange(0, keys, {dtype = "int64", device = device}):unsqueeze(1)
   if torch.is_tensor(offset) then offset = offset:reshape(-1, 1, 1, 1) end
   return i - j + offset
end

-- Returns the bias that is added to the scores of queries and keys. It combines the mask and the
-- other restrictions. Returns nil if nothing restricts the keys.
local function bias_of(node, mask, q, keys, past, valid)
   local dtype, device, queries = q.dtype, q.device, q:size(3)
   local bias
   if mask then
      local missing = keys - mask:size(-1)
      if missing > 0 then
         local shape = support.shape(mask)
         shape[#shape] = missing
         local rest = mask.dtype == "bool" and torch.zeros(shape, {dtype = "bool", device = device})
            or torch.full(shape, -math.huge, {dtype = mask.dtype, device = device})
         mask = torch.cat({mask, rest}, -1)
      end
      bias = mask.dtype == "bool" and as_bias(mask, dtype) or mask:to(dtype)
   end
   local function add(allowed)
      local more = as_bias(allowed, dtype)
      bias = bias and bias + more or more
   end
   local offset = past and past:size(3) or valid and valid:to "int64" - queries or 0
   local causal = node:int("is_causal", 0) ~= 0
   local left, right = node:int("left_window_size", -1), node:int("right_window_size", -1)
   if causal or left >= 0 or right >= 0 then
      local distance = distances(queries, keys, offset, device)
      if causal then add(distance:ge(0)) end
      if left >= 0 then add(distance:le(left)) end
      if right >= 0 then add(distance:ge(-right)) end
   end
   if valid then
      local places = torch.arange(0, keys, {dtype = "int64", device = device})
      add(places:reshape(1, 1, 1, keys):lt(valid:to "int64":reshape(-1, 1, 1, 1)))
   end
   return bias
end

-- Repeats the heads of keys and values so that there are `heads` of them. In grouped attention,
-- several query heads share one head of keys and values, which is repeated for each of them.
local function share(node, x, heads)
   if x:size(2) == heads then return x end
   if x:size(2) == 0 or heads % x:size(2) ~= 0 then
      node:fail("%d heads of queries cannot share %d of keys", heads, x:size(2))
   end
   return x:repeat_interleave(heads // x:size(2), 2)
end

-- Returns the softmax of the scores over the keys. A row without an allowed key becomes 0.
local function probabilities(scores, bias)
   local p = scores:softmax(-1)
   if not bias or bias:numel() == 0 then return p end
   local none = bias:amax({-1}, true):eq(-math.huge)
   return p:masked_fill(none, 0)
end

function M.Attention(node, q, k, v, mask, past_key, past_value, valid)
   local flat = q:dim() == 3
   if flat then
      local heads, shared = node:int "q_num_heads", node:int "kv_num_heads"
      q = split_heads(node, q, heads, "q_num_heads")
      k = split_heads(node, k, shared, "kv_num_heads")
      v = split_heads(node, v, shared, "kv_num_heads")
   elseif q:dim() ~= 4 then
      node:fail("expected 3 or 4 dimensions, got %s", values.describe(q))
   end
   if (past_key == nil) ~= (past_value == nil) then
      node:fail "past_key and past_value are given together"
   end
   if past_key then k, v = torch.cat({past_key, k}, 3), torch.cat({past_value, v}, 3) end
   local root = support.rounded(math.sqrt(node:float("scale", 1 / math.sqrt(q:size(4)))), q.dtype)
   local bias = bias_of(node, mask, q, k:size(3), past_key, valid)
   local keys, contents = share(node, k, q:size(2)), share(node, v, q:size(2))
   local scores = torch.matmul(q * root, (keys * root):transpose(-1, -2))
   local mode, shown = node:int("qk_matmul_output_mode", 0), scores
   local cap = node:float("softcap", 0)
   if cap > 0 then scores = torch.tanh(scores / cap) * cap end
   if mode == 1 then shown = scores end
   if bias then scores = scores + bias end
   if mode == 2 then shown = scores end
   local precision = node:int "softmax_precision"
   if precision then
      scores = scores:to(schema.dtypes[precision]
         or node:fail("attribute softmax_precision: %d", precision))
   end
   local p = cast(probabilities(scores, bias), q.dtype)
   if mode == 3 then shown = p end
   local y = torch.matmul(p, contents)
   if flat then
      y = y:transpose(2, 3):reshape(y:size(1), y:size(3), -1)
   end
   return y, k, v, cast(shown, q.dtype)
end

function M.RotaryEmbedding(node, x, cos, sin, positions)
   local flat = x:dim() == 3
   local y = x
   if flat then
      y = split_heads(node, x, node:int "num_heads", "num_heads")
   end
   local size = y:size(4)
   local turned = node:int("rotary_embedding_dim", 0)
   if turned == 0 then turned = size end
   if turned > size or turned % 2 ~= 0 then
      node:fail("attribute rotary_embedding_dim: %d of %d", turned, size)
   end
   if positions then
      local index = support.from_one(node, positions, cos:size(1))
      cos = cos:index_select(1, index:reshape(-1)):reshape(index:size(1), index:size(2), -1)
      sin = sin:index_select(1, index:reshape(-1)):reshape(index:size(1), index:size(2), -1)
   end
   if cos:size(-1) ~= turned // 2 then
      node:fail("cos_cache: expected rows of %d, got %s", turned // 2, values.describe(cos))
   end
   cos, sin = cos:unsqueeze(2), sin:unsqueeze(2) -- the shape is {batch, 1, length, turned / 2}
   local part, rest = y:narrow(4, 1, turned), y:narrow(4, turned + 1, size - turned)
   local result
   if node:int("interleaved", 0) ~= 0 then
      local pairs_of = part:unflatten(4, {turned // 2, 2})
      local a, b = pairs_of:select(5, 1), pairs_of:select(5, 2)
      result = torch.stack({cos * a - sin * b, sin * a + cos * b}, -1):flatten(4, 5)
   else
      local a, b = part:narrow(4, 1, turned // 2), part:narrow(4, turned // 2 + 1, turned // 2)
      result = torch.cat({cos * a - sin * b, sin * a + cos * b}, 4)
   end
   if turned < size then result = torch.cat({result, rest}, 4) end
   if flat then result = result:transpose(2, 3):reshape(support.shape(x)) end
   return cast(result, x.dtype)
end

function M.SwiGLU(node, a, b)
   node:same_dtype(a, b)
   return a * torch.sigmoid(a * node:float("alpha", 1)) * b
end

-- Computes linear attention. The state is a tensor {batch, heads, keys, values}. In each step it
-- decays, and the product of the step's key and value is added to it.
function M.LinearAttention(node, query, key, value, past, decay, beta)
   local rule = node:text("update_rule", "gated_delta")
   local gated, delta = rule:find "gated" ~= nil, rule:find "delta" ~= nil
   if not (gated or delta or rule == "linear") then
      node:fail("attribute update_rule: %q is unknown", rule)
   end
   if gated ~= (decay ~= nil) or delta ~= (beta ~= nil) then
      node:fail("update_rule %s: decay or beta is missing, or too much", rule)
   end
   local heads, shared = node:int "q_num_heads", node:int "kv_num_heads"
   local q = split_heads(node, query:to "float32", heads, "q_num_heads")
   local k = split_heads(node, key:to "float32", shared, "kv_num_heads")
   local v = split_heads(node, value:to "float32", shared, "kv_num_heads")
   local batch, steps = q:size(1), q:size(3)
   local scale = node:float("scale", 0)
   if scale == 0 then scale = 1 / math.sqrt(q:size(4)) end
   local state = past and past:to "float32"
      or torch.zeros({batch, shared, k:size(4), v:size(4)}, {device = q.device})
   local gates = gated and split_heads(node, decay:to "float32", shared, "kv_num_heads")
   local rates = delta and split_heads(node, beta:to "float32", beta:size(3), "kv_num_heads")
   local outputs = {}
   for t = 1, steps do
      local now, content = k:select(3, t), v:select(3, t)
      if gated then state = state * gates:select(3, t):exp():unsqueeze(-1) end
      if delta then
         local known = torch.matmul(now:unsqueeze(3), state):squeeze(3)
         content = rates:select(3, t) * (content - known)
      end
      state = state + now:unsqueeze(4) * content:unsqueeze(3)
      local read = share(node, state, heads)
      outputs[t] = torch.matmul(q:select(3, t):unsqueeze(3), read):squeeze(3) * scale
   end
   local y = torch.stack(outputs, 2):reshape(batch, steps, -1)
   return y:to(query.dtype), state:to(past and past.dtype or query.dtype)
end

support.share_heads = share

return M
