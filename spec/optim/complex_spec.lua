-- Tests optimizers on complex parameters, by comparing them with PyTorch's results (spec/fixtures/complex.py). The
-- optimizers treat the real and imaginary parts as separate real numbers.

local torch = require "tlua"

local reference = dofile "spec/fixtures/complex.lua"

local function parameter(...)
   return torch.tensor({...}, {dtype = "complex128"}):requires_grad_()
end

local function loss_of(p)
   local distances = (p - torch.complex(1, -1)):abs() ^ 2
   return (torch.tensor {1, 3} * distances):sum() + (p.real ^ 4):sum()
end

describe("an optimizer of complex parameters", function()
   for i, row in ipairs(reference.optimizers) do
      local name, options, expected = table.unpack(row)
      it(("steps as PyTorch's: %s, row %d"):format(name, i), function()
         local p = parameter(torch.complex(1, 2), torch.complex(-1, 0.5))
         local optimizer = torch.optim[name]({p}, options)
         for _ = 1, 4 do
            optimizer:step(function()
               optimizer:zero_grad()
               local loss = loss_of(p)
               loss:backward()
               return loss
            end)
         end
         -- PyTorch stores some factors of NAdam and ASGD in float32
         local tolerance = (name == "NAdam" or name == "ASGD") and 1e-8 or 1e-12
         assert.close(expected, p:detach():view_as_real():reshape(-1):tolist(), tolerance)
      end)
   end

   it("steps real parameters beside them", function()
      local z, x = parameter(torch.complex(1, 2)), torch.ones(2):requires_grad_()
      local optimizer = torch.optim.Adam({z, x}, {lr = 0.1})
      local loss = z:abs():sum() + x:sum()
      loss:backward()
      optimizer:step()
      assert.close({0.9, 1.9}, z:detach():view_as_real():reshape(-1):tolist(), 1e-6)
      assert.close({0.9, 0.9}, x:detach():tolist(), 1e-6)
      assert.equal("complex128", optimizer.state[1].exp_avg.dtype)
   end)

   it("continues from its saved state", function()
      local function run(from)
         local p = parameter(torch.complex(1, 2))
         local optimizer = torch.optim.Adam({p}, {lr = 0.1})
         if from then
            optimizer:load_state_dict(from[2])
            p.data:copy_(from[1])
         end
         for _ = 1, 2 do
            optimizer:zero_grad()
            loss_of(p):backward()
            optimizer:step()
         end
         return {p:detach():clone(), optimizer:state_dict()}
      end
      local p = parameter(torch.complex(1, 2))
      local optimizer = torch.optim.Adam({p}, {lr = 0.1})
      for _ = 1, 4 do
         optimizer:zero_grad()
         loss_of(p):backward()
         optimizer:step()
      end
      assert.is_true(torch.equal(p:detach(), run(run())[1]))
   end)

   it("notices that a step has changed saved tensors", function()
      local p = parameter(torch.complex(1, 2))
      local optimizer = torch.optim.SGD({p}, {lr = 0.1})
      local loss = (p * p):abs():sum()
      loss:backward {retain_graph = true}
      optimizer:step()
      assert.raises("was changed in place by _fused_step_", function() loss:backward() end)
   end)

   it("clips by magnitudes", function()
      local p = parameter(torch.complex(3, 4), 0)
      p.grad = p:detach():clone()
      assert.equal(5, torch.nn.utils.clip_grad_norm_({p}, 0.5):item())
      assert.close({0.3, 0.4, 0, 0}, p.grad:view_as_real():reshape(-1):tolist(), 1e-6)
      assert.equal(7, torch.nn.utils.get_total_norm({parameter(torch.complex(3, 4), 2)}, 1):item())
   end)
end)
