-- Tests gradients that are zero for all inputs. Such a gradient must be a tensor of zeros, as in PyTorch, and not
-- nil.

local torch = require "tlua"
local F = torch.nn.functional

local function leaf(...) return torch.randn({...}, {dtype = "float64", requires_grad = true}) end

local function assert_zeros(grad, shape)
   assert.same(shape, grad.shape)
   assert.is_false(grad:ne(0):any():item())
end

describe("a gradient of zeros", function()
   it("exists for the weights of group_norm without samples", function()
      for _, shape in ipairs {{0, 4}, {0, 4, 3}, {0, 4, 2, 5}} do
         local x, w, b = leaf(table.unpack(shape)), leaf(4), leaf(4)
         local y = F.group_norm(x, 2, w, b)
         assert.same(shape, y.shape)
         assert.equal("float64", y.dtype)
         local gx, gw, gb = torch.autograd.grad(y:sum(), {x, w, b})
         assert_zeros(gx, shape)
         assert_zeros(gw, {4})
         assert_zeros(gb, {4})
         assert_zeros((torch.autograd.grad(F.group_norm(x, 2, nil, b):sum(), {b})), {4})
      end
      local half = torch.zeros(0, 4, {dtype = "float16"})
      assert.equal("float16", F.group_norm(half, 2, torch.ones(4), torch.ones(4)).dtype)
   end)

   it("exists for the grid if the nearest element is taken", function()
      for _, shape in ipairs {{1, 2, 3, 3}, {0, 2, 3, 3}} do
         local x, grid = leaf(table.unpack(shape)), leaf(shape[1], 4, 5, 2)
         local y = F.grid_sample(x, grid, {mode = "nearest", align_corners = false})
         assert.close(F.grid_sample(x:detach(), grid:detach(), {mode = "nearest", align_corners = false}), y:detach())
         local gx, gg = torch.autograd.grad(y:sum(), {x, grid})
         assert.same(shape, gx.shape)
         assert_zeros(gg, grid.shape)
      end
      local x, grid = leaf(1, 2, 3, 3, 3), leaf(1, 2, 2, 2, 3)
      local y = F.grid_sample(x, grid, {mode = "nearest", align_corners = false})
      assert_zeros(select(2, torch.autograd.grad(y:sum(), {x, grid})), {1, 2, 2, 2, 3})
   end)

   it("exists for matrices to the power 0", function()
      local A = leaf(2, 3, 3)
      local one = A:matrix_power(0)
      assert.is_not_nil(one.grad_fn)
      assert.close(torch.eye(3, {dtype = "float64"}):expand(2, 3, 3), one:detach())
      assert_zeros((torch.autograd.grad(one:sum(), {A})), {2, 3, 3})
      local infinite = torch.full({2, 2}, math.huge)
      assert.close(torch.eye(2), infinite:matrix_power(0))
      assert.equal("int64", torch.ones(2, 2, {dtype = "int64"}):matrix_power(0).dtype)
   end)
end)

describe("a number for all elements", function()
   it("may be written if they share memory", function()
      local x = torch.zeros(1)
      local wide = x:expand(3)
      wide:fill_(2)
      assert.same({2}, x:tolist())
      wide[{}] = 5
      assert.same({5, 5, 5}, wide:tolist())
      wide:zero_()
      assert.same({0}, x:tolist())
      local windows = torch.arange(6):unfold(1, 3, 1)
      windows:fill_(7)
      assert.same({7, 7, 7}, windows[4]:tolist())
   end)

   it("may not be written by add_ or a recorded fill_", function()
      local x = torch.zeros(1, {requires_grad = true})
      local wide = (x * 1):expand(3)
      assert.raises("fill_: several elements", function() wide:fill_(2) end)
      assert.raises("fill_: ", function() x:expand(3):fill_(2) end)
      torch.no_grad(function() x:expand(3):fill_(2) end)
      assert.same({2}, x:tolist())
      assert.raises("add_: several elements", function() torch.zeros(1):expand(3):add_(1) end)
   end)
end)
