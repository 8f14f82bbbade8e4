-- Tests sparse parameters and buffers of modules: state dicts, files, copies, conversions and optimizers.

local torch = require "tlua"
local nn = torch.nn

local function matrix() return torch.sparse_coo_tensor({{1, 2, 3}, {2, 1, 3}}, {1.0, 2.0, 3.0}, {3, 3}):coalesce() end

local function build()
   local m = nn.Module()
   m.coo = nn.Parameter(matrix())
   m.csr = nn.Parameter(matrix():to_sparse_csr(), false)
   m:register_buffer("buffer", matrix() * 2)
   m.marked = nn.Buffer(matrix():to_sparse_csc())
   return m
end

local layouts <const> = {coo = "sparse_coo", csr = "sparse_csr", buffer = "sparse_coo", marked = "sparse_csc"}

describe("a module with sparse parameters and buffers", function()
   it("lists, saves and loads them", function()
      local m = build()
      local names = {}
      for name, parameter in m:named_parameters() do
         names[#names + 1] = name
         assert.is_true(parameter.is_parameter)
      end
      assert.same({"coo", "csr"}, names)
      assert.same({true, false}, {m.coo.requires_grad, m.csr.requires_grad})
      local state = m:state_dict()
      for name, layout in pairs(layouts) do
         assert.equal(layout, state[name].layout)
         assert.is_false(state[name].requires_grad)
      end
      for _, ending in ipairs {".safetensors", ".pt"} do
         local path = os.tmpname() .. ending
         torch.save(state, path)
         local other = build()
         torch.no_grad(function()
            other.coo:mul_(7)
            other.buffer:zero_()
         end)
         other:load_state_dict(torch.load(path))
         for name, layout in pairs(layouts) do
            assert.equal(layout, other[name].layout)
            assert.close(m[name]:to_dense(), other[name]:to_dense())
         end
         assert.same({true, true, false}, {other.coo.is_parameter, other.coo.requires_grad, other.csr.requires_grad})
         os.remove(path)
      end
   end)

   it("loads other positions, and refuses another layout or shape", function()
      local m = build()
      local state = m:state_dict()
      state.coo = torch.sparse_coo_tensor({{1}, {2}}, {9.0}, {3, 3})
      local parameter = m.coo
      m:load_state_dict(state)
      assert.close({{0, 9, 0}, {0, 0, 0}, {0, 0, 0}}, parameter:to_dense())
      m:load_state_dict({coo = matrix() * 5}, {strict = false, assign = true})
      assert.close(matrix():to_dense() * 5, m.coo:to_dense())
      assert.is_true(m.coo.is_parameter)
      assert.raises("coo: expected layout sparse_coo, got strided", function()
         m:load_state_dict({coo = torch.ones(3, 3)}, {strict = false})
      end)
      assert.raises("coo: expected shape (3, 3), got (3, 4)", function()
         m:load_state_dict({coo = torch.ones(3, 4):to_sparse()}, {strict = false})
      end)
   end)

   it("is copied and cast", function()
      local m = build()
      local copy = m:clone()
      torch.no_grad(function() copy.coo:mul_(2) end)
      assert.close(matrix():to_dense(), m.coo:to_dense())
      assert.close(matrix():to_dense() * 2, copy.coo:to_dense())
      assert.same({true, true}, {copy.coo.is_parameter, copy.coo.requires_grad})
      local parameter = m.coo
      torch.sparse.mm(m.coo, torch.eye(3)):sum():backward()
      m:double()
      assert.same({"float64", "float64", "float64", "float64"},
         {m.coo.dtype, m.csr.dtype, m.buffer.dtype, m.marked.dtype})
      assert.equal(parameter, m.coo)
      assert.same({"float64", true}, {m.coo.grad.dtype, m.coo.requires_grad})
   end)

   it("reads PyTorch's files, and writes them", function()
      local read = torch.load "spec/fixtures/formats/sparse.pt"
      local path = os.tmpname() .. ".pt"
      torch.save(read, path)
      for _, state in ipairs {read, torch.load(path)} do
         local dense = torch.tensor {{0.0, 0, 3}, {4, 0, 5}}
         for _, name in ipairs {"coo", "coalesced", "csr", "csc", "parameter"} do
            assert.close(dense, state[name]:to_dense())
         end
         for _, name in ipairs {"bsr", "bsc"} do
            assert.equal("sparse_" .. name, state[name].layout)
            assert.close({{0, 0, 3, 3}, {4, 0, 0, 5}}, state[name]:to_dense())
         end
         assert.close({{0, 0}, {1, 2}, {0, 0}}, state.hybrid:to_dense())
         assert.same({true, true, true, false}, {state.parameter.is_parameter, state.parameter.requires_grad,
            state.coalesced:is_coalesced(), state.coo:is_coalesced()})
      end
      os.remove(path)
   end)
end)

-- The expected values are PyTorch 2.15's for two steps with lr 0.1. The loss is (w @ arange(9).view(3,
-- 3)).pow(2).sum().
describe("optimizers with a sparse leaf", function()
   local function train(layout, options)
      local w = nn.Parameter(matrix():to_sparse {layout = layout})
      local optimizer = torch.optim.SGD({w}, options)
      for _ = 1, 2 do
         optimizer:zero_grad()
         torch.sparse.mm(w, torch.arange(9.0):reshape(3, 3)):pow(2):sum():backward()
         assert.equal(layout, w.grad.layout)
         optimizer:step()
      end
      return w:detach(), optimizer
   end

   it("step as PyTorch's: SGD", function()
      for _, layout in ipairs {"sparse_coo", "sparse_csr"} do
         assert.close({{0, 81, 0}, {0, 0, 0}, {0, 0, 2488.3203}}, (train(layout, {lr = 0.1})):to_dense(), 1e-3)
         local w, optimizer = train(layout, {lr = 0.1, momentum = 0.9})
         assert.close({{0, 72, 0}, {-1.8, 0, 0}, {0, 0, 2407.9202}}, w:to_dense(), 1e-3)
         assert.equal(layout, optimizer.state[1].momentum_buffer.layout)
         assert.close({{0, 81.18, 0}, {2e-4, 0, 0}, {0, 0, 2489.9}},
            (train(layout, {lr = 0.1, weight_decay = 0.1})):to_dense(), 0.2)
      end
   end)

   -- The optimizer adds several elements at the same position before the step, as PyTorch 2.15 does.
   it("coalesce it first", function()
      local w = torch.sparse_coo_tensor({{1, 1, 3}, {2, 2, 3}}, {1.0, 2.0, 3.0}, {3, 3}):requires_grad_()
      torch.sparse.mm(w, torch.eye(3)):sum():backward()
      torch.optim.SGD({w}, {lr = 0.1}):step()
      assert.close({{0, 2.9, 0}, {0, 0, 0}, {0, 0, 2.9}}, w:detach():to_dense())
      w = torch.sparse_coo_tensor({{1, 1, 3}, {2, 2, 3}}, {1.0, 2.0, 3.0}, {3, 3}):requires_grad_()
      torch.sparse.mm(w, torch.eye(3)):pow(2):sum():backward()
      assert.close(8.485281, nn.utils.clip_grad_norm_({w}, 1.0):item(), 1e-5)
      assert.close({0.707107, 0.707107}, w.grad:values(), 1e-5)
      for _, layout in ipairs {"sparse_csr", "sparse_csc"} do
         local c = matrix():to_sparse {layout = layout}:requires_grad_()
         torch.sparse.mm(c, torch.eye(3)):sum():backward()
         assert.close(1.7320508, nn.utils.clip_grad_norm_({c}, 1.0):item(), 1e-5)
      end
   end)

   it("refuse it: Adam, Adagrad and others", function()
      for name, text in pairs {Adam = "Adam does not support sparse gradients, please consider SparseAdam",
         AdamW = "please consider SparseAdam", Adagrad = "Adagrad does not support sparse gradients",
         RMSprop = "RMSprop does not support", NAdam = "NAdam does not support", Adamax = "Adamax does not support",
         ASGD = "ASGD does not support", Rprop = "Rprop does not support", Adadelta = "Adadelta does not support",
         RAdam = "RAdam does not support", Lion = "Lion does not support"} do
         local w = matrix():requires_grad_()
         local optimizer = torch.optim[name]({w}, {lr = 0.1})
         torch.sparse.mm(w, torch.eye(3)):sum():backward()
         assert.raises(text, function() optimizer:step() end)
      end
   end)
end)
