-- torch.func.vmap: its options, and every operator of the table on a batch of its examples.
local torch = require "tlua"
local table_of = require "spec.support.table"
local vmap = torch.func.vmap

describe("vmap", function()
   local x = torch.arange(0, 6):float():view(2, 3)

   it("maps along the dimensions that are asked for", function()
      local function dot(a, b) return (a * b):sum() end
      assert.same({5, 50}, vmap(dot)(x, x):tolist())
      assert.same({9, 17, 29}, vmap(dot, {in_dims = 2})(x, x):tolist())
      assert.same({9, 17, 29}, vmap(dot, {in_dims = {-1, 2}})(x, x):tolist())
      assert.same({5, 14}, vmap(dot, {in_dims = {1, false}})(x, x[1]):tolist())
   end)

   it("stacks along the dimensions that are asked for", function()
      local function both(a) return a * 2, a:sum() end
      local twice, sums = vmap(both, {out_dims = {2, 1}})(x)
      assert.same({3, 2}, twice.shape)
      assert.same({3, 12}, sums:tolist())
      assert.same({0, 1, 2}, vmap(function(a) return a end, {out_dims = false})(x):tolist())
   end)

   it("takes and gives tables", function()
      local result = vmap(function(p) return {sum = p.a + p.b, p.a} end,
         {in_dims = {{a = 1, b = false}}}) {a = x, b = torch.ones(3)}
      assert.same({{1, 2, 3}, {4, 5, 6}}, result.sum:tolist())
      assert.close(x, result[1], 0)
   end)

   it("nests", function()
      local outer = vmap(function(a)
         return vmap(function(b) return (a * b):sum() end)(x)
      end)(x)
      assert.close(x:matmul(x:t()), outer, 1e-6)
   end)

   it("may ask for values", function()
      local abs = vmap(function(a) if a:item() < 0 then return -a end return a end)
      assert.same({1, 2}, abs(torch.tensor {-1.0, 2.0}):tolist())
   end)

   it("passes gradients", function()
      local w = torch.ones(2, 3):requires_grad_()
      vmap(function(a, b) return (a * b):sum() end)(w, x):sum():backward()
      assert.close(x, w.grad, 0)
   end)

   it("draws random numbers as it is told", function()
      local function noise(a) return a + torch.rand(3) end
      assert.raises("draws random numbers", function() vmap(noise)(x) end)
      torch.manual_seed(1)
      local expected = torch.rand(3)
      torch.manual_seed(1)
      local same = vmap(noise, {randomness = "same"})(torch.zeros(2, 3))
      assert.close(torch.stack {expected, expected}, same, 0)
      torch.manual_seed(1)
      local first, second = torch.rand(3), torch.rand(3)
      torch.manual_seed(1)
      local different = vmap(noise, {randomness = "different"})(torch.zeros(2, 3))
      assert.close(torch.stack {first, second}, different, 0)
   end)

   it("refuses wrong arguments", function()
      local function id(a) return a end
      assert.raises("sizes of what is mapped differ: 2 in argument 1, 3 in argument 2", function()
         vmap(id)(x, torch.ones(3))
      end)
      assert.raises("in_dims: expected a dimension of argument 1", "got 3", function()
         vmap(id, {in_dims = 3})(x)
      end)
      assert.raises("in_dims: expected 1 of them, one for each argument, got 2", function()
         vmap(id, {in_dims = {1, 1}})(x)
      end)
      assert.raises("in_dims is false for all", function() vmap(id, {in_dims = false})(x) end)
      assert.raises("at least one example", function() vmap(id)(torch.zeros(0, 3)) end)
      assert.raises("result 1: expected a tensor, got 3", function()
         vmap(function() return 3 end)(x)
      end)
      assert.raises("randomness: expected error, same or different, got \"some\"", function()
         vmap(id, {randomness = "some"})
      end)
      assert.raises("out_dims: expected a dimension from 1 to 2", function()
         vmap(id, {out_dims = 4})(x)
      end)
   end)
end)

-- The same arguments, floating-point numbers a bit smaller.
local function smaller(args)
   return table_of.map(args, function(t)
      return t:is_floating_point() and (t:detach() * 0.9) or t
   end)
end

-- Both arguments as a batch of two, and the dimensions to map, in the same structure.
local function batch(first, second)
   if torch.is_tensor(first) then return torch.stack {first:detach(), second:detach()}, 1 end
   if type(first) ~= "table" then return first, false end
   local both, dims = {}, {}
   for key in pairs(first) do both[key], dims[key] = batch(first[key], second[key]) end
   return both, dims
end

local function only_tensors(results)
   for i = 1, results.n do
      if not torch.is_tensor(results[i]) then return false end
   end
   return results.n > 0
end

-- What is wrong with an operator on a batch; nil if nothing is. The second result is whether there
-- was something to compare.
local function check(row, text)
   local args = table_of.arguments(text)
   local less = smaller(args)
   local expected = {table_of.call(row, args), table_of.call(row, less)}
   if not only_tensors(expected[1]) then return nil, false end
   local batched, dims = {}, {}
   for k = 1, args.n do
      batched[k], dims[k] = batch(args[k], less[k])
      if batched[k] == nil then dims[k] = false end
   end
   local function operator(...)
      return table.unpack(table_of.call(row, table.pack(...)))
   end
   local ok, fault = pcall(function()
      local mapped = vmap(operator, {in_dims = dims, randomness = "same"})
      local results = table.pack(mapped(table.unpack(batched, 1, args.n)))
      for i = 1, expected[1].n do
         for k = 1, 2 do assert.close(expected[k][i]:detach(), results[i][k], 1e-12) end
      end
   end)
   return not ok and (type(fault) == "table" and fault.message or fault) or nil, true
end

-- Memory beneath a view is its own affair; a build may lack other devices.
local elsewhere = {as_strided = true, cuda = true, sim = true}

describe("vmap of every operator", function()
   it("is the operator on each example", function()
      local faults, walked = {}, 0
      for _, row in ipairs(table_of.rows()) do
         for _, text in ipairs(elsewhere[row.name] and {} or row.examples) do
            if text:find "[TPUIM]%(" or text:find "SPD" then
               local fault, done = check(row, text)
               if done then walked = walked + 1 end
               if fault then faults[#faults + 1] = ("%s(%s): %s"):format(row.path, text, fault) end
            end
         end
      end
      assert.equal("", table.concat(faults, "\n"))
      assert.is_true(walked > 1100, "examples walked: " .. walked)
   end)
end)
