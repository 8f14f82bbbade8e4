-- Tests sparse tensors in exported programs, under autocast and in gradcheck.

local torch = require "tlua"
local nn = torch.nn
local device = require "spec.support.device".name

local function pair_sums(options)
   return torch.sparse_coo_tensor({{1, 1, 3}, {2, 2, 3}}, {1.0, 2.0, 3.0}, {3, 3}, options)
end

describe("torch.export_step", function()
   it("records sparse gradients as dense ones, with the same steps", function()
      if device then return end -- exported programs with sparse tensors run only on the CPU
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

describe("a sparse argument", function()
   it("of a Function and of a checkpoint is saved and gets a gradient", function()
      local Product = torch.class("Product", torch.autograd.Function)
      function Product.forward(ctx, s, x)
         ctx:save_for_backward(s, x)
         return torch.sparse.mm(s, x)
      end
      function Product.backward(ctx, grad)
         local s, x = ctx:saved_tensors()
         return torch.sparse.sampled_addmm(s, grad, x:t(), {beta = 0}), s:t():mm(grad)
      end
      local x = torch.arange(9):reshape(3, 3):float()
      local function product(s, y) return Product:apply(s, y) end
      for _, fn in ipairs {torch.sparse.mm, product, function(...) return torch.utils.checkpoint(product, ...) end} do
         local s, y = pair_sums():coalesce():requires_grad_(), x:clone():requires_grad_()
         fn(s, y):square():sum():backward()
         assert.same({300, 894}, s.grad:values():tolist())
         assert.close(0, (y.grad - torch.autograd.grad(torch.sparse.mm(s, y):square():sum(), y)):abs():max(), 0)
      end
   end)

   it("of a checkpoint may be a result as well", function()
      local s = pair_sums():coalesce():requires_grad_()
      local values, double = torch.utils.checkpoint(function(a) return a:to_dense() * 3, a * 2 end, s)
      torch.add(values:sum(), double:sum()):backward()
      assert.same({5, 5}, s.grad:values():tolist())
      double = s * 2
      double:backward(s:detach())
      local one = torch.sparse_coo_tensor({{1}, {2}}, {2.0}, {2, 2}):requires_grad_()
      assert.raises("backward: expected a gradient, since the tensor has 4 elements",
         function() (one * 2):backward() end)
      assert.raises("backward: expected a sparse tensor with the same positions as gradient",
         function() double:backward(s:detach():t():coalesce()) end)
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
