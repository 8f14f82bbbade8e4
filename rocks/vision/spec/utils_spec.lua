-- Tests torch.vision.utils: grids equal those that torchvision 0.29 has made of the same images.

local torch = require "tlua"
local shell = require "spec.support.shell"

local utils = torch.vision.utils

describe("make_grid", function()
   -- from torchvision.utils.make_grid(torch.arange(12.).view(3, 1, 2, 2), nrow=2, padding=1, pad_value=-1)[0]
   local expected <const> = {
      {-1, -1, -1, -1, -1, -1, -1}, {-1, 0, 1, -1, 4, 5, -1}, {-1, 2, 3, -1, 6, 7, -1}, {-1, -1, -1, -1, -1, -1, -1},
      {-1, 8, 9, -1, -1, -1, -1}, {-1, 10, 11, -1, -1, -1, -1}, {-1, -1, -1, -1, -1, -1, -1},
   }
   local images = torch.arange(0, 12, {dtype = "float32"}):view(3, 1, 2, 2)

   it("puts images into rows", function()
      local grid = utils.make_grid(images, 2, {padding = 1, pad_value = -1})
      assert.same({3, 7, 7}, {table.unpack(grid.shape)})
      assert.same(torch.tensor(expected):double():tolist(), grid[1]:double():tolist())
      assert.is_true(torch.equal(grid, utils.make_grid({images[1], images[2], images[3]}, 2, 1, false, nil, false, -1)))
   end)

   it("stretches values", function()
      local grid = utils.make_grid(images, 3, {padding = 0, normalize = true})
      assert.same({0, 1}, {grid:min():item(), grid:max():item()})
      local each = utils.make_grid(images, 3, {padding = 0, normalize = true, scale_each = true})
      assert.same({{0.0, 0.0, 0.0}}, {each:select(2, 1)[1][{{1, -1, 2}}]:double():tolist()})
   end)

   it("refuses what is no batch", function()
      assert.matches("vision.utils.make_grid: tensor: expected images of shape",
         select(2, pcall(utils.make_grid, torch.zeros(3))))
      assert.matches("vision.utils.make_grid: tensor: expected images of shape",
         select(2, pcall(utils.make_grid, torch.zeros(0, 3, 2, 2))))
      assert.matches("nrow: expected at least 1, got 0", select(2, pcall(utils.make_grid, images, 0)))
   end)
end)

describe("save_image", function()
   it("writes rounded values", function()
      shell.with_folder(function(folder)
         local path = folder .. "/a.png"
         utils.save_image(torch.tensor({0, 0.5, 1, 2}):view(1, 1, 2, 2), path)
         assert.same({{0, 128}, {255, 255}}, torch.load(path)[1]:tolist())
      end)
   end)
end)
