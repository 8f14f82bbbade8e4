-- context.lua - sequences that are split over ranks: attention to the keys of all of them, which go
-- round a ring.
--
-- "Ring Attention with Blockwise Transformers for Near-Infinite Context" (Liu et al., 2023). Each
-- rank has its queries' results so far with the logarithm of their weights' sum; what the next keys
-- add is put together with that ("FlashAttention-2", Dao, 2023, section 3.1). Going back, the
-- gradients of keys and values go round with them.
--
-- Of a sequence of 2N chunks rank r has chunks r and 2N - 1 - r: under a causal mask all ranks then
-- have the same work.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local device_mesh = require "tlua.distributed.device_mesh"
local F = require "tlua.nn.functional"
local Function = require "tlua.autograd.Function"

local M = {}

-- The ring
-- -----------------------------------------------------------------------------------------

-- Sends a tensor to the next rank, and begins to receive that of the one before: {works, tensor}.
local function pass_on(tensor, group, tag)
   local n, rank = #group.ranks, group.group_rank
   local next_rank, previous = group.ranks[(rank + 1) % n + 1], group.ranks[(rank - 1) % n + 1]
   local received = torch.empty_like(tensor)
   local dist = torch.distributed
   local options = {group = group, tag = tag}
   local works = dist.batch_isend_irecv {
      dist.P2POp(dist.isend, tensor, next_rank, options),
      dist.P2POp(dist.irecv, received, previous, options),
   }
   return {sent = works[1], work = works[2], tensor = received}
end

local function arrive(message)
   message.work:wait()
   message.sent:wait()
   return message.tensor
end

-- {first position, chunk's number in the whole sequence} of this, or another, rank's two chunks.
local function chunks(length, rank, n)
   local half = length // 2
   return {{1, rank}, {half + 1, 2 * n - 1 - rank}}, half
end

-- Calls fn(queries' first position, keys' first position, length, whether on the diagonal) for all
-- pairs of chunks of which queries see keys.
local function each_pair(causal, length, rank, from, n, fn)
   if not causal then return fn(1, 1, length, false) end
   local own, half = chunks(length, rank, n)
   for _, q in ipairs(own) do
      for _, k in ipairs((chunks(length, from, n))) do
         if k[2] <= q[2] then fn(q[1], k[1], half, k[2] == q[2]) end
      end
   end
end

local function part(x, first, length) return x:narrow(-2, first, length) end

local function scores_of(q, k, scale, diagonal)
   local s = q:matmul(k:transpose(-1, -2)) * scale
   if diagonal then
      local n = s:size(-1)
      local later = torch.ones({n, n}, {dtype = "bool", device = s.device}):triu(1)
      s = s:masked_fill(later, -math.huge)
   end
   return s
end

local Ring = class.class("distributed.tensor.RingAttention", Function)

-- q, k, v: (..., positions, features), of one dtype
function Ring.forward(ctx, q, k, v, group, causal, scale)
   local n, rank, length = #group.ranks, group.group_rank, q:size(-2)
   local result = torch.zeros_like(q)
   local shape = table.move(q.shape, 1, q:dim(), 1, {})
   shape[#shape] = 1
   local norm = torch.full(shape, -math.huge, {dtype = q.dtype, device = q.device})
   local pair = torch.stack({k, v})
   for step = 0, n - 1 do
      local message = step < n - 1 and pass_on(pair, group, step)
      local keys, values = pair[1], pair[2]
      each_pair(causal, length, rank, (rank - step) % n, n, function(qa, ka, size, diagonal)
         local s = scores_of(part(q, qa, size), part(keys, ka, size), scale, diagonal)
         local added = s:logsumexp(-1, true)
         local here, before = part(result, qa, size), part(norm, qa, size)
         local total = torch.logaddexp(before, added)
         local new = (s - total):exp():matmul(part(values, ka, size))
         here:copy_(here * (before - total):exp() + new)
         before:copy_(total)
      end)
      if message then pair = arrive(message) end
   end
   ctx.group, ctx.causal, ctx.scale = group, causal, scale
   ctx:save_for_backward(q, k, v, result, norm)
   return result
end

function Ring.backward(ctx, grad)
   local q, k, v, result, norm = ctx:saved_tensors()
   local group, n, rank, length = ctx.group, #ctx.group.ranks, ctx.group.group_rank, q:size(-2)
   local delta = (grad * result):sum(-1, true)
   local grad_q, pair = torch.zeros_like(q), torch.stack({k, v})
   local grads = torch.zeros_like(pair)
   for step = 0, n - 1 do
      local message = step < n - 1 and pass_on(pair, group, 1000 + step)
      local keys, values, grad_k, grad_v = pair[1], pair[2], grads[1], grads[2]
      each_pair(ctx.causal, length, rank, (rank - step) % n, n, function(qa, ka, size, diagonal)
         local queries, ks = part(q, qa, size), part(keys, ka, size)
         local g = part(grad, qa, size)
         local s = scores_of(queries, ks, ctx.scale, diagonal)
         local p = (s - part(norm, qa, size)):exp()
         part(grad_v, ka, size):add_(p:transpose(-1, -2):matmul(g))
         local inner = g:matmul(part(values, ka, size):transpose(-1, -2))
         local ds = p * (inner - part(delta, qa, size)) * ctx.scale
         part(grad_q, qa, size):add_(ds:matmul(ks))
         part(grad_k, ka, size):add_(ds:transpose(-1, -2):matmul(queries))
      end)
      if message then pair = arrive(message) end
      grads = n > 1 and arrive(pass_on(grads, group, 2000 + step)) or grads
   end
   return grad_q, grads[1], grads[2]
end

-- Users' functions
-- ---------------------------------------------------------------------------------

local take_ring = args.signature [[ring_attention(query: tensor, key: tensor, value: tensor,
   mesh: object, is_causal: boolean = false, scale: number?)]]

local function attend(title, group, a)
   local q, k, v = a.query, a.key, a.value
   local function text(x) return table.concat(x.shape, ", ") end
   if q:dim() < 2 or text(q) ~= text(k) or text(k) ~= text(v) then
      torch.raise(("%s: expected query, key and value of one shape, got (%s), (%s) and (%s)")
         :format(title, text(q), text(k), text(v)))
   end
   if q.dtype ~= k.dtype or k.dtype ~= v.dtype then
      torch.raise(("%s: expected one dtype, got %s, %s and %s"):format(title, q.dtype, k.dtype,
         v.dtype))
   end
   if a.is_causal and q:size(-2) % 2 ~= 0 then
      torch.raise(("%s: is_causal: expected an even number of positions on each rank, got %d")
         :format(title, q:size(-2)))
   end
   local dtype = q.dtype
   if dtype == "float16" or dtype == "bfloat16" then q, k, v = q:float(), k:float(), v:float() end
   local scale = a.scale or q:size(-1) ^ -0.5
   return Ring:apply(q, k, v, group, a.is_causal or false, scale):to(dtype)
end

--- softmax(query @ key^T * scale) @ value over a sequence of which each rank of a mesh has the part
--- that context_parallel gives it: (..., positions, features), of one shape on all ranks. Memory is
--- that of this rank's positions and of the keys of one other. The result of this rank's queries.
---@param query Tensor
---@param key Tensor
---@param value Tensor
---@param mesh distributed.DeviceMesh
---@param options? {is_causal: boolean, scale: number}
---@return Tensor
function M.ring_attention(...)
   local a = take_ring(...)
   return attend("ring_attention", device_mesh.group_of("ring_attention", a.mesh), a)
end

-- This rank's chunks of a tensor.
local function own_part(title, tensor, dim, group)
   local n, rank = #group.ranks, group.group_rank
   local d = dim < 0 and tensor:dim() + 1 + dim or dim
   if d < 1 or d > tensor:dim() or tensor:size(d) % (2 * n) ~= 0 then
      torch.raise(("%s: expected a tensor whose dimension %d can be cut into %d parts, got %s")
         :format(title, dim, 2 * n, args.describe(tensor)))
   end
   local size = tensor:size(d) // (2 * n)
   local last = 2 * n - 1 - rank
   return torch.cat({
      tensor:narrow(d, rank * size + 1, size), tensor:narrow(d, last * size + 1, size),
   }, d)
end

local take_attention = args.signature [[scaled_dot_product_attention(query: tensor, key: tensor,
   value: tensor, attn_mask: tensor?, dropout_p: number = 0.0, is_causal: boolean = false,
   scale: number?, enable_gqa: boolean = false, generator: any?)]]

local take_context = args.signature [[context_parallel(mesh: object, buffers: table,
   buffer_seq_dims: table, fn: function)]]

--- Calls fn with this rank's parts of the buffers (inputs, targets, positions), each cut along its
--- sequence's dimension, and returns what it returns. Within fn scaled_dot_product_attention
--- attends to the sequence as a whole, by ring_attention; everything else sees this rank's
--- positions alone, so positions that a model numbers itself are to be among the buffers. Gradients
--- of parameters are those of this rank's positions: they are averaged as those of other parts of a
--- batch are.
---@param mesh distributed.DeviceMesh
---@param buffers Tensor[]
---@param buffer_seq_dims integer[]
---@param fn function
---@return any ...
function M.context_parallel(...)
   local a = take_context(...)
   local group = device_mesh.group_of("context_parallel", a.mesh)
   if #a.buffers == 0 or #a.buffers ~= #a.buffer_seq_dims then
      torch.raise(("context_parallel: buffer_seq_dims: expected one dimension for each of %d " ..
         "buffers, got %d"):format(#a.buffers, #a.buffer_seq_dims))
   end
   local parts = {}
   for i, buffer in ipairs(a.buffers) do
      if not torch.is_tensor(buffer) then
         args.refuse("context_parallel", ("buffers[%d]"):format(i), "a tensor", buffer)
      end
      parts[i] = own_part(("context_parallel: buffers[%d]"):format(i), buffer,
         a.buffer_seq_dims[i], group)
   end
   local plain = F.scaled_dot_product_attention
   local _ <close> = setmetatable({}, {__close = function()
      F.scaled_dot_product_attention = plain
   end})
   F.scaled_dot_product_attention = function(...)
      local b = take_attention(...)
      if b.attn_mask or b.dropout_p ~= 0 or b.enable_gqa then
         torch.raise("scaled_dot_product_attention: within context_parallel attn_mask, " ..
            "dropout_p and enable_gqa cannot be given")
      end
      return attend("scaled_dot_product_attention", group, b)
   end
   return a.fn(table.unpack(parts))
end

--- The whole of tensors of which each rank has the part that context_parallel gives it.
---@param mesh distributed.DeviceMesh
---@param buffers Tensor[]
---@param seq_dims integer[]
---@return Tensor[]
function M.context_parallel_unshard(mesh, buffers, seq_dims)
   local group = device_mesh.group_of("context_parallel_unshard", mesh)
   local n, whole = #group.ranks, {}
   for i, buffer in ipairs(buffers) do
      local d, parts, order = seq_dims[i], {}, {}
      buffer = buffer:detach():contiguous()
      for r = 1, n do parts[r] = torch.empty_like(buffer) end
      group.raw:run("all_gather", buffer, parts)
      for r, tensor in ipairs(parts) do
         local first, last = table.unpack(tensor:chunk(2, d))
         order[r], order[2 * n + 1 - r] = first, last
      end
      whole[i] = torch.cat(order, d)
   end
   return whole
end

return M
