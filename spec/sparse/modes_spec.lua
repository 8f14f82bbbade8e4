-- Tests sparse tensors in exported programs, under autocast and in gradcheck.

local torch = require "tlua"
local nn = torch.nn
local device = require "spec.support.device".name

local function pair_sums(options)
   return torch.sparse_coo_tensor({{1, 1, 3}, {2, 2, 3}}, {1.0, 2.0, 3.0}, {3, 3}, options)
end

describe("torch.export_step", function()
   it("records sparse gradients as dense ones, with the same steps", function()
      if device then return end -- programs run on the CPU
      for _, row in ipairs {{"SGD", {lr = 0.1}}, {"SGD", {lr = 0.1, momentum = 0.9}}, {"Adagrad", {lr = 0.1}}} do
         for _, class in ipairs {"Embedding", "EmbeddingBag"} do
            local weights = {}
            for i, exported in ipairs {true, false} do
               local layer = nn[class](8, 3, {sparse = true})
               torch.no_grad(function() layer.weight:copy_(torch.arange(24):reshape(8, 3):sin()) end)
               local optimizer = torch.optim[row[1]](layer:parameters(), row[2])
               local function step(x)
                  optimizer:zero_grad()
                  local loss = layer(x):pow(2):sum()
                  loss:backward()
                  optimizer:step()
                  return loss
               end
               local x = torch.tensor {{1, 3, 3}}
               local run = exported and torch.export_step(step, {x}, {model = layer, optimizer = optimizer}) or step
               for _ = 1, 3 do run(x) end
               weights[i] = layer.weight:detach()
            end
            assert.close(weights[2], weights[1], 1e-6)
         end
      end
   end)
end)

describe("torch.export", function()
   it("records products of sparse matrices, coalesced or not, and given values", function()
      if device then return end
      local x, s = torch.arange(9.0):reshape(3, 3), pair_sums()
      for _, a in ipairs {s, s:coalesce(), s:to_sparse_csr()} do
         local program = torch.export(function(y) return torch.sparse.mm(a, y) end, {torch.eye(3)})
         assert.close(torch.sparse.mm(a, x), program(x))
      end
      local indices = torch.tensor {{1, 1, 3}, {2, 2, 3}}
      local program = torch.export(function(values, y)
         return torch.sparse.mm(torch.sparse_coo_tensor(indices, values, {3, 3}), y)
      end, {torch.ones(3), torch.eye(3)})
      assert.close(torch.sparse.mm(s, x), program(torch.tensor {1.0, 2.0, 3.0}, x))
   end)
end)

describe("autocast", function()
   it("computes products of sparse matrices in the lower dtype", function()
      torch.autocast(device or "cpu", {dtype = "bfloat16"}, function()
         local x = torch.eye(3)
         for _, s in ipairs {pair_sums(), pair_sums():to_sparse_csr()} do
            for _, result in ipairs {torch.sparse.mm(s, x), torch.mm(s, x), s:matmul(x), torch.sparse.addmm(x, s, x),
               torch.addmm(x, s, x), torch.sparse.mm(x, s)} do
               assert.equal("bfloat16", result.dtype)
            end
            assert.equal("float64", torch.sparse.mm(s:double(), x:double()).dtype)
         end
         assert.equal("bfloat16", pair_sums():mv(torch.ones(3)).dtype)
      end)
   end)
end)

describe("gradcheck", function()
   it("varies the values of sparse inputs, and takes sparse results", function()
      local check, twice = torch.autograd.gradcheck, torch.autograd.gradgradcheck
      local x = torch.arange(9):double():reshape(3, 3):sin():requires_grad_()
      local s = pair_sums {dtype = "float64"}
      for _, a in ipairs {s, s:coalesce(), s:to_sparse_csr(), s:to_sparse_csc()} do
         a = a:detach():requires_grad_()
         assert.is_true(check(torch.sparse.mm, {a, x}))
         assert.is_true(check(torch.sparse.mm, {a, x}, {masked = true}))
         assert.is_true(twice(torch.sparse.mm, {a, x}))
         assert.is_true(check(function(y) return y * 2 + y end, a))
         assert.raises("gradcheck: masked: expected true or nil with the sparse input 1", function()
            check(torch.sparse.mm, {a, x}, {masked = false})
         end)
      end
      local z = s:to "complex128":requires_grad_()
      assert.is_true(check(torch.sparse.mm, {z, x:detach():to "complex128"}))
      local wrong = function(y) return torch.sparse.mm(y:detach(), x) + torch.sparse.mm(y, x) end
      assert.is_false((check(wrong, {s:detach():requires_grad_(), x}, {raise_exception = false})))
   end)
end)
