-- Tests sparse gradients of embeddings: how autograd computes them, optimizers that accept them, clipping, files and
-- batches of sparse tensors.

local torch = require "tlua"
local nn, F = torch.nn, torch.nn.functional

local function weight(rows, width)
   local n = rows * width
   return ((torch.arange(n) * 1.3 + 0.5):sin()):reshape(rows, width)
end

-- Returns two layers with equal weights. One has sparse gradients, the other dense gradients.
local function pair(rows, width, options)
   local made = {}
   for i, sparse in ipairs {true, false} do
      local given = {sparse = sparse}
      for key, value in pairs(options or {}) do given[key] = value end
      made[i] = nn.Embedding(rows, width, given)
      torch.no_grad(function() made[i].weight:copy_(weight(rows, width)) end)
   end
   return made[1], made[2]
end

local words = {{2, 5, 2}, {7, 1, 5}}

local function loss_of(layer, k)
   return (layer(torch.tensor(words)) * (torch.arange(6):reshape(2, 3, 1) * 0.1 + (k or 1))):pow(2):sum()
end

describe("nn.Embedding with the option sparse", function()
   it("gives the weight a sparse gradient of the used rows", function()
      local a, b = pair(8, 3)
      loss_of(a):backward()
      loss_of(b):backward()
      local grad = a.weight.grad
      assert.same({"sparse_coo", true, 6}, {grad.layout, grad.is_sparse, grad:_nnz()})
      assert.is_false(grad:is_coalesced())
      assert.close({{1, 2, 5, 7}}, grad:coalesce():indices())
      assert.close(b.weight.grad, grad:to_dense())
      assert.equal("strided", b.weight.grad.layout)
      assert.truthy(tostring(a):find("sparse=True", 1, true))
   end)

   it("accumulates rows, and joins a dense gradient", function()
      local a, b = pair(8, 3)
      for k = 1, 2 do
         loss_of(a, k):backward()
         loss_of(b, k):backward()
      end
      assert.equal(12, a.weight.grad:_nnz())
      assert.close(b.weight.grad, a.weight.grad:to_dense(), 1e-5)
      a.weight.grad, b.weight.grad = nil, nil
      for _, layer in ipairs {a, b} do (loss_of(layer) + layer.weight:pow(2):sum()):backward() end
      assert.equal("strided", a.weight.grad.layout)
      assert.close(b.weight.grad, a.weight.grad, 1e-5)
      loss_of(a):backward()
      loss_of(b):backward()
      assert.close(b.weight.grad, a.weight.grad, 1e-5)
   end)

   it("leaves out the padding, and divides by counts", function()
      local a, b = pair(8, 3, {padding_idx = 5, scale_grad_by_freq = true})
      loss_of(a):backward()
      loss_of(b):backward()
      assert.equal(4, a.weight.grad:_nnz())
      assert.close(b.weight.grad, a.weight.grad:to_dense(), 1e-5)
   end)

   it("gives hooks and autograd.grad the sparse gradient", function()
      local a, b = pair(8, 3)
      local seen
      a.weight:register_hook(function(grad)
         seen = grad.layout
         return grad * 2
      end)
      loss_of(a):backward()
      loss_of(b):backward()
      assert.equal("sparse_coo", seen)
      assert.close(b.weight.grad * 2, a.weight.grad:to_dense(), 1e-5)
      local grad = torch.autograd.grad(loss_of(a), a.weight)
      assert.equal("sparse_coo", grad.layout)
      local dense = torch.autograd.grad(loss_of(a), a.weight, {create_graph = true})
      assert.equal("strided", dense.layout)
      assert.is_true(dense.requires_grad)
   end)

   it("passes a dense gradient to a weight that is no leaf", function()
      local table_ = weight(8, 3):requires_grad_()
      local rows = F.embedding(torch.tensor(words), table_ * 2, {sparse = true})
      rows:sum():backward()
      assert.equal("strided", table_.grad.layout)
      assert.close({2, 4, 0, 0, 4, 0, 2, 0}, table_.grad:select(2, 1))
   end)

   it("takes an assigned gradient, and refuses one that does not fit", function()
      local a = pair(8, 3)
      a.weight.grad = torch.sparse_coo_tensor({{3, 1}}, torch.ones(2, 3), {8, 3})
      assert.close({1, 0, 1, 0, 0, 0, 0, 0}, a.weight.grad:to_dense():select(2, 1))
      assert.raises("a sparse gradient has layout sparse_coo, one sparse dimension", function()
         a.weight.grad = torch.ones(8, 3):to_sparse()
      end)
      assert.raises("grad", function() a.weight.grad = torch.sparse_coo_tensor({{3}}, torch.ones(1, 3), {7, 3}) end)
      a:zero_grad(false)
      assert.close(torch.zeros(8, 3), a.weight.grad:to_dense())
      a:zero_grad()
      assert.is_nil(a.weight.grad)
   end)

   it("converts it with the layer", function()
      local a, b = pair(8, 3)
      for _, layer in ipairs {a, b} do
         loss_of(layer):backward()
         layer:double()
      end
      assert.same({"float64", "sparse_coo"}, {a.weight.grad.dtype, a.weight.grad.layout})
      assert.close(b.weight.grad, a.weight.grad:to_dense(), 1e-5)
   end)

   it("works for bags", function()
      for _, mode in ipairs {"sum", "mean"} do
         local made = {}
         for i, sparse in ipairs {true, false} do
            local bag = nn.EmbeddingBag(8, 3, {mode = mode, sparse = sparse})
            torch.no_grad(function() bag.weight:copy_(weight(8, 3)) end)
            bag(torch.tensor(words)):pow(2):sum():backward()
            made[i] = bag.weight.grad
         end
         assert.equal("sparse_coo", made[1].layout)
         assert.close(made[2], made[1]:to_dense(), 1e-5)
      end
   end)
end)

describe("optimizers with sparse gradients", function()
   local optim = torch.optim

   -- Trains both layers for three steps and compares their weights.
   local function compare(name, options, tol)
      local a, b = pair(8, 3)
      for i, layer in ipairs {a, b} do
         local optimizer = optim[name](layer:parameters(), options)
         for k = 1, 3 do
            optimizer:zero_grad()
            loss_of(layer, k):backward()
            assert.equal(i == 1, layer.weight.grad.is_sparse)
            optimizer:step()
         end
      end
      assert.close(b.weight:detach(), a.weight:detach(), tol or 1e-5)
   end

   it("step as with dense ones: SGD", function()
      compare("SGD", {lr = 0.1})
      compare("SGD", {lr = 0.1, maximize = true})
      compare("SGD", {lr = 0.05, momentum = 0.9})
      compare("SGD", {lr = 0.05, momentum = 0.9, nesterov = true})
      compare("SGD", {lr = 0.05, momentum = 0.9, dampening = 0.3})
   end)

   it("step as with dense ones: Adagrad", function()
      compare("Adagrad", {lr = 0.1})
      compare("Adagrad", {lr = 0.1, lr_decay = 0.1, initial_accumulator_value = 0.5})
   end)

   it("refuse dense ones: SparseAdam", function()
      local _, dense = pair(8, 3)
      loss_of(dense):backward()
      assert.raises("optim.SparseAdam: parameter of shape (8, 3): SparseAdam does not support dense gradients",
         function() optim.SparseAdam(dense:parameters()):step() end)
      assert.raises("optim.SparseAdam: parameter 1: SparseAdam requires dense parameter tensors, got layout sparse_coo",
         function() optim.SparseAdam {torch.eye(2):to_sparse():requires_grad_()} end)
   end)

   it("step the other way with maximize: SparseAdam", function()
      local a, b = pair(8, 3), pair(8, 3)
      for i, layer in ipairs {a, b} do
         local optimizer = optim.SparseAdam(layer:parameters(), {lr = 0.1, maximize = i == 2});
         (loss_of(layer) * (i == 2 and -1 or 1)):backward()
         optimizer:step()
      end
      assert.close(a.weight:detach(), b.weight:detach())
   end)

   -- The expected values are PyTorch 2.15's: e = Embedding(4, 2, sparse=True), weight arange(8) / 8, loss (e([0, 2, 2])
   -- * [[1], [2], [3]]).pow(2).sum(), two steps.
   it("give PyTorch's weights", function()
      local expected = {
         SparseAdam = {0.0, -0.055304, 0.25, 0.375, 0.301187, 0.425828, 0.75, 0.875},
         Adagrad = {0.0, 0.005388, 0.25, 0.375, 0.33753, 0.460681, 0.75, 0.875},
         SGD = {0.0, 0.08, 0.25, 0.375, 1.28, 1.6, 0.75, 0.875},
      }
      for name, weights in pairs(expected) do
         local layer = nn.Embedding(4, 2, {sparse = true})
         torch.no_grad(function() layer.weight:copy_(torch.arange(8):reshape(4, 2) / 8) end)
         local optimizer = optim[name](layer:parameters(), {lr = 0.1})
         for _ = 1, 2 do
            optimizer:zero_grad();
            (layer(torch.tensor {1, 3, 3}) * torch.tensor {{1.0}, {2.0}, {3.0}}):pow(2):sum():backward()
            optimizer:step()
         end
         assert.close(weights, layer.weight:detach():flatten(), 1e-5)
      end
   end)

   it("clip and scale them", function()
      local a, b = pair(8, 3)
      loss_of(a):backward()
      loss_of(b):backward()
      local x = nn.utils.clip_grad_norm_(a:parameters(), 0.5)
      local y = nn.utils.clip_grad_norm_(b:parameters(), 0.5)
      assert.close(y:item(), x:item(), 1e-4)
      assert.close(b.weight.grad, a.weight.grad:to_dense(), 1e-5)
      nn.utils.clip_grad_value_(a:parameters(), 0.05)
      nn.utils.clip_grad_value_(b:parameters(), 0.05)
      assert.close(b.weight.grad, a.weight.grad:to_dense(), 1e-6)
      for _, layer in ipairs {a, b} do
         layer.weight.grad = nil
         loss_of(layer):backward()
         optim.SGD(layer:parameters(), {lr = 1}):step {max_norm = 0.5}
      end
      assert.close(b.weight:detach(), a.weight:detach(), 1e-5)
   end)

   it("divide them by the scale of amp.GradScaler", function()
      local a, b = pair(8, 3)
      for _, layer in ipairs {a, b} do
         local scaler = torch.GradScaler("cpu", {init_scale = 256})
         local sgd = optim.SGD(layer:parameters(), {lr = 0.1})
         scaler:scale(loss_of(layer)):backward()
         scaler:step(sgd)
         scaler:update()
      end
      assert.close(b.weight:detach(), a.weight:detach(), 1e-5)
   end)

   it("are dense for LBFGS, as in PyTorch", function()
      for search, expected in pairs {none = {{0.07772152, 0.16220681}, {0.22703612, 0.3186588}, {0.4, 0.5}},
         strong_wolfe = {{0.21895362, 0.29015794}, {0.2953546, 0.36688971}, {0.4, 0.5}}} do
         local start = torch.arange(6):float():view(3, 2) / 10
         local layer = nn.Embedding.from_pretrained(start, {freeze = false, sparse = true})
         local lbfgs = optim.LBFGS(layer:parameters(), {lr = 0.1, max_iter = 3, line_search_fn = search})
         lbfgs:step(function()
            lbfgs:zero_grad()
            local loss = (layer(torch.tensor {1, 2, 1}) - 1):pow(4):sum()
            loss:backward()
            return loss
         end)
         assert.close(expected, layer.weight:detach(), 1e-6)
      end
   end)

   it("refuse them where they need dense ones", function()
      local a = pair(8, 3)
      loss_of(a):backward()
      for _, name in ipairs {"Adam", "Adafactor", "Muon"} do
         assert.raises(("optim.%s: parameter of shape (8, 3): got a sparse gradient; SparseAdam, SGD and Adagrad")
            :format(name), function() optim[name](a:parameters()):step() end)
      end
      assert.raises("optim.LBFGS: parameter of shape (2, 2): got a sparse tensor",
         function() optim.LBFGS {torch.eye(2):to_sparse():requires_grad_()} end)
      assert.raises("optim.SGD: weight_decay: expected 0 with a sparse gradient", function()
         optim.SGD(a:parameters(), {lr = 1, weight_decay = 0.1}):step()
      end)
   end)

   it("step a mixed model, and keep their state", function()
      local a = pair(8, 3)
      local model = nn.Sequential(a, nn.Linear(3, 2))
      local optimizer = optim.Adagrad(model:parameters(), {lr = 0.1})
      model(torch.tensor(words)):pow(2):sum():backward()
      local before = model[2].weight:detach():clone()
      optimizer:step()
      assert.is_false(torch.equal(before, model[2].weight:detach()))
      local again = optim.Adagrad(model:parameters(), {lr = 0.1})
      again:load_state_dict(optimizer:state_dict())
      assert.close(optimizer.state[1].sum, again.state[1].sum)
   end)
end)

describe("sparse tensors in files and batches", function()
   it("come back from a file", function()
      local path = os.tmpname() .. ".safetensors"
      local s = torch.sparse_coo_tensor({{1, 2, 2}, {3, 1, 3}}, {3.0, 4.0, 5.0}, {2, 3})
      torch.save({s = s, csr = s:to_sparse_csr(), bsr = s:to_sparse_bsr {1, 3}, n = 3}, path)
      local back = torch.load(path)
      assert.same({"sparse_coo", "sparse_csr", "sparse_bsr", 3},
         {back.s.layout, back.csr.layout, back.bsr.layout, back.n})
      for _, name in ipairs {"s", "csr", "bsr"} do assert.close(s:to_dense(), back[name]:to_dense()) end
      torch.save({a = s, b = s}, path)
      assert.close(s:to_dense(), torch.load(path).b:to_dense())
      torch.save(s, path)
      assert.close(s:to_dense(), torch.load(path):to_dense())
      os.remove(path)
   end)

   it("are stacked by the loader, also from workers", function()
      if require "spec.support.device".name then return end -- workers can only send CPU tensors
      for _, workers in ipairs {0, 2} do
         local items = {}
         for i = 1, 6 do items[i] = {torch.sparse_coo_tensor({{i}}, {i + 0.5}, {6}), i} end
         local loader = torch.data.DataLoader(items, {batch_size = 3, num_workers = workers})
         local sum = torch.zeros(6)
         for x, y in loader:iter() do
            assert.equal("sparse_coo", x.layout)
            assert.same({3, 6}, {table.unpack(x.shape)})
            assert.equal(3, y:numel())
            sum:add_(x:to_dense():sum(1))
         end
         assert.close({1.5, 2.5, 3.5, 4.5, 5.5, 6.5}, sum)
      end
   end)
end)
