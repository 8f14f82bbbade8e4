-- products.lua - products of matrices and attention, sequence by sequence where necessary.

local torch = require "tlua"
local args = require "tlua.args"
local V = require "tlua.nested.value"

local fail <const>, kind <const> = V.fail, V.kind
local define <const>, parts <const> = kind.define, kind.parts
local F <const> = torch.nn.functional

for name in ("linear linear_relu linear_gelu"):gmatch "%S+" do
   local fn = F[name]
   define(name, function(x, ...)
      local p = parts(x)
      if not p then kind.unsupported(name .. " with a nested weight") end
      if p.dim == p.values:dim() + 1 then
         fail("%s: the last dimension of the shape %s is ragged", name, V.shown(p))
      end
      return kind.like(p, fn(p.values, ...))
   end, false)
end

local function refuse(a, b)
   local function shown(x)
      return parts(x) and V.shown(parts(x)) or ("(%s)"):format(table.concat(x.shape, ", "))
   end
   fail("matmul: is not defined for shapes %s and %s: at most one ragged dimension may remain, and "
      .. "a dense matrix or a batch of them fits a dense dimension", shown(a), shown(b))
end

-- Multiplies sequence i of a by the matrix list[i]. Returns the list of products.
local function products(a, list)
   local results = {}
   for i, x in ipairs(V.sequences(a)) do results[i] = x:matmul(list[i]) end
   return results
end

local function matmul(a, b)
   for name, x in pairs {input = a or false, other = b or false} do
      if not torch.is_tensor(x) then args.refuse("matmul", name, "a tensor", x or nil) end
   end
   local p, q = parts(a), parts(b)
   local n, m = p and p.values:dim() + 1, q and q.values:dim() + 1
   if p and q then
      if n ~= m or #p.ragged.lengths ~= #q.ragged.lengths then refuse(a, b) end
      if p.dim == n and q.dim == n - 1 then
         for i, length in ipairs(p.ragged.lengths) do
            if length ~= q.ragged.lengths[i] then refuse(a, b) end
         end
         if #p.ragged.lengths == 0 then
            return p.values:matmul(q.values):unsqueeze(1):narrow(1, 1, 0)
         end
         return torch.stack(products(p, V.sequences(q)))
      end
      if p.dim == q.dim and p.dim < n - 1 and p.ragged == q.ragged then
         return kind.like(p, p.values:matmul(q.values))
      end
   elseif p and p.dim < n and b:dim() <= 2 then
      if b:dim() == 0 or b:dim() == 1 and p.dim == n then refuse(a, b) end
      return kind.like(p, p.values:matmul(b))
   elseif p and p.dim == n - 1 and b:dim() == n and b:size(1) == #p.ragged.lengths then
      p = V.packed(p)
      if #p.ragged.lengths == 0 then
         local sizes = table.move(b.shape, 2, n, 1, {})
         return kind.like(p, p.values:matmul(b:new_zeros(sizes)))
      end
      return V.new(torch.cat(products(p, b:unbind(1)), p.dim - 1), p.ragged, p.dim)
   elseif q and a:dim() == 2 and q.dim ~= m - 1 and m > 2 then
      return kind.like(q, a:matmul(q.values))
   end
   refuse(a, b)
end
V.define("matmul", 2, matmul)
V.define("bmm", 2, function(a, b)
   for _, x in ipairs {a, b} do
      if not torch.is_tensor(x) or x:dim() ~= 3 then
         args.refuse("bmm", "input", "tensors of 3 dimensions", x)
      end
   end
   return matmul(a, b)
end)

local take = args.signature [[scaled_dot_product_attention(query: tensor, key: tensor,
   value: tensor, attn_mask: tensor?, dropout_p: number = 0, is_causal: boolean = false,
   scale: number?, enable_gqa: boolean = false)]]

-- Groups the sequences that have the same lengths of query and key. Returns lists of their numbers.
local function groups_of(queries, keys)
   local list, by = {}, {}
   for i, n in ipairs(queries) do
      local key = n .. " " .. keys[i]
      if not by[key] then
         by[key] = {}
         list[#list + 1] = by[key]
      end
      table.insert(by[key], i)
   end
   return list
end

-- Computes attention for one group of sequences of equal lengths at a time. Returns the values of
-- the nested result.
local function grouped(groups, p, q, v, options)
   local order, starts, at, d = {}, {}, 1, p.dim - 1
   for _, group in ipairs(groups) do
      for _, i in ipairs(group) do
         order[#order + 1], starts[i] = i, at
         at = at + p.ragged.lengths[i]
      end
   end
   local device, rows_of = p.values.device, {}
   local function batches(x)
      local ragged, sizes = x.ragged, {}
      rows_of[ragged] = rows_of[ragged] or V.rows(ragged, order, device)
      for g, group in ipairs(groups) do sizes[g] = #group * ragged.lengths[group[1]] end
      local list = x.values:movedim(d, 1):index_select(1, rows_of[ragged]):split(sizes, 1)
      for g, group in ipairs(groups) do
         list[g] = list[g]:unflatten(1, {#group, ragged.lengths[group[1]]}):movedim(2, d + 1)
      end
      return list
   end
   local queries, keys, values, results = batches(p), batches(q), batches(v), {}
   for g, query in ipairs(queries) do
      local y = F.scaled_dot_product_attention(query, keys[g], values[g], options)
      results[g] = y:movedim(d + 1, 2):flatten(1, 2)
   end
   local back = V.rows({starts = starts, lengths = p.ragged.lengths}, nil, device)
   return torch.cat(results, 1):index_select(1, back):movedim(1, d)
end

-- Computes attention within each sequence, without padding.
define("scaled_dot_product_attention", function(...)
   local who <const> = "scaled_dot_product_attention"
   local a = take(...)
   if a.attn_mask then
      fail("%s: attn_mask: expected nil, as nested tensors need none; is_causal may be true", who)
   end
   local p, q, v = parts(a.query), parts(a.key), parts(a.value)
   for name, x in pairs {query = p or a.query, key = q or a.key, value = v or a.value} do
      if torch.is_tensor(x) then args.refuse(who, name, "a nested tensor as the others", x) end
      local n = x.values:dim() + 1
      if n < 3 or x.dim ~= n - 1 then
         fail("%s: %s: expected the shape (batch, heads, ragged, size), got %s; transpose(2, 3) "
            .. "moves the heads", who, name, V.shown(x))
      end
   end
   if #p.ragged.lengths ~= #q.ragged.lengths then
      fail("%s: key: expected the batch of the query, %d, got %d", who, #p.ragged.lengths,
         #q.ragged.lengths)
   end
   if q.ragged ~= v.ragged then
      fail("%s: value: expected the raggedness of the key, %s, got %s", who, V.shown(q), V.shown(v))
   end
   p = V.packed(p)
   local options = {dropout_p = a.dropout_p, is_causal = a.is_causal, scale = a.scale,
      enable_gqa = a.enable_gqa}
   local groups = groups_of(p.ragged.lengths, q.ragged.lengths)
   if 2 * #groups <= #p.ragged.lengths and #groups > 0 then
      return V.new(grouped(groups, p, q, v, options), p.ragged, p.dim)
   end
   local keys, values, results = V.sequences(q), V.sequences(v), {}
   for i, query in ipairs(V.sequences(p)) do
      results[i] = F.scaled_dot_product_attention(query, keys[i], values[i], options)
   end
   if #results == 0 then
      local sizes = {table.unpack(p.values.shape)}
      sizes[p.dim] = v.values:size(-1)
      results[1] = p.values:new_zeros(sizes)
   end
   return V.new(torch.cat(results, p.dim - 1), p.ragged, p.dim)
end, false)
