-- context.lua - context parallelism: sequences split over ranks, and attention over the whole
-- sequence, for which keys and values pass through all ranks in a ring.
--
-- "Ring Attention with Blockwise Transformers for Near-Infinite Context" (Liu et al., 2023). Each
-- rank keeps the results of attention for its queries and the keys so far, with the logarithms of
-- the sums of weights, and merges them with the results for the next keys ("FlashAttention-2", Dao,
-- 2023, section 3.1). In the backward pass the gradients of keys and values travel around the ring
-- together with the keys and values.
--
-- A sequence is divided into 2N chunks. Rank r has the chunks r and 2N - 1 - r, so that all ranks
-- have the same amount of work under a causal mask.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local device_mesh = require "tlua.distributed.device_mesh"
local F = require "tlua.nn.functional"
local Function = require "tlua.autograd.Function"
local scopes = require "tlua.scope"

local M = {}

-- The ring
-- -----------------------------------------------------------------------------------------

-- Begins to send a tensor to the next rank of the ring, and to receive a tensor from the previous
-- rank. Returns {the Works of both, the tensor that is being received}.
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

-- Calls fn(first query, number of queries, first key, number of keys) for each range of this rank's
-- queries that attends to a range of the keys of rank `from`. Under a causal mask the order of the
-- chunks matters: the first chunk of an earlier rank precedes both chunks of this rank, and its
-- second chunk follows both. The chunks of a later rank lie between the two chunks of this rank.
local function visible(causal, length, rank, from, fn)
   local half = length // 2
   if not causal then
      fn(1, length, 1, length)
   elseif from < rank then
      fn(1, length, 1, half)
   else
      fn(half + 1, half, 1, length)
   end
end

local function part(x, first, length) return x:narrow(3, first, length) end

-- Merges the results of attention to more keys, `added`, into `result`, in place. `norm` and
-- `added_norm` are the logarithms of the sums of their weights.
local function merge(result, norm, added, added_norm)
   local weight = (added_norm - norm):sigmoid():unsqueeze(-1)
   result:lerp_(added:to(result.dtype), weight)
   norm:copy_(norm:logaddexp(added_norm))
end

local Ring = class.class("distributed.tensor.RingAttention", Function)

-- Computes attention for this rank's queries. q is (batch, heads, positions, features); k and v may
-- have fewer heads. For half-precision dtypes, the results are merged in float32.
function Ring.forward(ctx, q, k, v, group, causal, scale)
   local n, rank, length = #group.ranks, group.group_rank, q:size(3)
   local result, norm
   local pair = torch.stack({k, v})
   for step = 0, n - 1 do
      local message = step < n - 1 and pass_on(pair, group, step)
      local keys, values = pair[1], pair[2]
      if step == 0 then -- this rank's own keys, whose two chunks are in the order of the sequence
         result, norm = torch._scaled_dot_product_flash_attention(q, k, v,
            {is_causal = causal, scale = scale})
         if n > 1 and result.dtype ~= norm.dtype then result = result:to(norm.dtype) end
      else
         visible(causal, length, rank, (rank - step) % n, function(qa, queries, ka, many)
            merge(part(result, qa, queries), part(norm, qa, queries),
               torch._scaled_dot_product_flash_attention(part(q, qa, queries),
                  part(keys, ka, many), part(values, ka, many), {scale = scale}))
         end)
      end
      if message then pair = arrive(message) end
   end
   result = result:to(q.dtype)
   ctx.group, ctx.causal, ctx.scale = group, causal, scale
   ctx:save_for_backward(q, k, v, result, norm)
   return result
end

function Ring.backward(ctx, grad)
   if torch.is_grad_enabled() then
      torch.raise "ring_attention: it has no second derivative; got create_graph"
   end
   local q, k, v, result, norm = ctx:saved_tensors()
   local group, n, rank, length = ctx.group, #ctx.group.ranks, ctx.group.group_rank, q:size(3)
   local backward, pair = torch._scaled_dot_product_flash_attention_backward, torch.stack({k, v})
   local grad_q, grads
   for step = 0, n - 1 do
      local message = step < n - 1 and pass_on(pair, group, 1000 + step)
      local keys, values = pair[1], pair[2]
      if step == 0 then
         local options = {is_causal = ctx.causal, scale = ctx.scale}
         local of_q, of_k, of_v = backward(grad, q, k, v, result, norm, options)
         grad_q, grads = of_q:to(norm.dtype), torch.stack({of_k, of_v}):to(norm.dtype)
      else
         visible(ctx.causal, length, rank, (rank - step) % n, function(qa, queries, ka, many)
            local of_q, of_k, of_v = backward(part(grad, qa, queries), part(q, qa, queries),
               part(keys, ka, many), part(values, ka, many), part(result, qa, queries),
               part(norm, qa, queries), {scale = ctx.scale})
            part(grad_q, qa, queries):add_(of_q)
            part(grads[1], ka, many):add_(of_k)
            part(grads[2], ka, many):add_(of_v)
         end)
      end
      if message then pair = arrive(message) end
      grads = n > 1 and arrive(pass_on(grads, group, 2000 + step)) or grads
   end
   return grad_q:to(q.dtype), grads[1]:to(k.dtype), grads[2]:to(v.dtype)
end

-- Users' functions
-- ---------------------------------------------------------------------------------

local take_ring = args.signature [[ring_attention(query: tensor, key: tensor, value: tensor,
   mesh: object, is_causal: boolean = false, scale: number?, enable_gqa: boolean = false)]]

local function shape_text(x) return table.concat(x.shape, ", ") end

local function check_shapes(title, q, k, v, gqa)
   local same = shape_text(q) == shape_text(k)
   if gqa and q:dim() >= 3 and k:dim() == q:dim() then
      same = k:size(-3) > 0 and q:size(-3) % k:size(-3) == 0
      for d = 1, q:dim() do same = same and (d == q:dim() - 2 or q:size(d) == k:size(d)) end
   end
   if q:dim() < 2 or not same or shape_text(k) ~= shape_text(v) then
      torch.raise(("%s: expected query, key and value of one shape%s, got (%s), (%s) and (%s)")
         :format(title, gqa and ", but that heads of query may be a multiple of theirs" or "",
         shape_text(q), shape_text(k), shape_text(v)))
   end
end

-- Reshapes a tensor to (batch, heads, positions, features).
local function as_heads(x)
   local n = x:dim()
   return x:reshape(-1, n > 2 and x:size(-3) or 1, x:size(-2), x:size(-1))
end

local function attend(title, group, a)
   local q, k, v = a.query, a.key, a.value
   check_shapes(title, q, k, v, a.enable_gqa)
   if q.dtype ~= k.dtype or k.dtype ~= v.dtype then
      torch.raise(("%s: expected one dtype, got %s, %s and %s"):format(title, q.dtype, k.dtype,
         v.dtype))
   end
   if a.is_causal and q:size(-2) % 2 ~= 0 then
      torch.raise(("%s: is_causal: expected an even number of positions on each rank, got %d")
         :format(title, q:size(-2)))
   end
   local scale = a.scale or q:size(-1) ^ -0.5
   return Ring:apply(as_heads(q), as_heads(k), as_heads(v), group, a.is_causal or false, scale)
      :reshape(q.shape)
end

--- Computes softmax(query @ key^T * scale) @ value over a whole sequence. The arguments are this
--- rank's part of the sequence, as context_parallel cuts it: (..., positions, features), with the
--- same shape on all ranks. A rank's memory holds its own positions and the keys and values of one
--- other rank at a time; attention weights are never stored. With enable_gqa the number of heads
--- (dimension -3) of query may be a multiple of key's and value's. Returns the result for this
--- rank's queries; there is no second derivative.
---@param query Tensor
---@param key Tensor
---@param value Tensor
---@param mesh distributed.DeviceMesh
---@param options? {is_causal: boolean, scale: number, enable_gqa: boolean}
---@return Tensor
function M.ring_attention(...)
   local a = take_ring(...)
   return attend("ring_attention", device_mesh.group_of("ring_attention", a.mesh), a)
end

-- Returns this rank's chunks of a tensor.
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
--- sequence's dimension, and returns fn's results. Within fn scaled_dot_product_attention attends
--- to the sequence as a whole, by ring_attention. All other operators see only this rank's
--- positions, so position numbers must be among the buffers. Gradients of parameters cover this
--- rank's positions only: average them over the ranks, as in data parallelism.
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
   local _ <close> = scopes.with_field(F, "scaled_dot_product_attention", function(...)
      local b = take_attention(...)
      if b.attn_mask or b.dropout_p ~= 0 then
         torch.raise("scaled_dot_product_attention: within context_parallel attn_mask and " ..
            "dropout_p cannot be given")
      end
      return attend("scaled_dot_product_attention", group, b)
   end)
   return a.fn(table.unpack(parts))
end

--- Gathers whole tensors from the parts that context_parallel has given the ranks.
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
      group:run("all_gather", {inputs = buffer, outputs = parts})
      for r, tensor in ipairs(parts) do
         local first, last = table.unpack(tensor:chunk(2, d))
         order[r], order[2 * n + 1 - r] = first, last
      end
      whole[i] = torch.cat(order, d)
   end
   return whole
end

return M
