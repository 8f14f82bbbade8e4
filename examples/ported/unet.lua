-- A U-Net (Ronneberger et al. 2015) finds the discs in noisy pictures of discs and squares:
--
--    tlua examples/ported/unet.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("unet.lua", "Finds discs in pictures.")
parser:option("--steps", "training steps", 100)
parser:option("--batch", "pictures in a batch", 16)
parser:option("--size", "pixels of a side", 32)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local at = torch.arange(0, opt.size)
local rows, columns = at:view(1, -1, 1), at:view(1, 1, -1)

-- Returns pictures (N, 1, S, S), and masks (N, 1, S, S) of the discs.
local function batch(n)
   local function place() return torch.rand(n, 1, 1) * (opt.size - 12) + 6 end
   local disc = ((rows - place()) ^ 2 + (columns - place()) ^ 2):lt(25):float()
   local square = torch.max((rows - place()):abs(), (columns - place()):abs()):lt(4.5):float()
   local picture = torch.max(disc, square) + 0.3 * torch.randn(n, opt.size, opt.size)
   return picture:unsqueeze(2), disc:unsqueeze(2)
end

local function double_conv(from, to)
   return nn.Sequential(
      nn.Conv2d(from, to, 3, {padding = 1, bias = false}), nn.BatchNorm2d(to), nn.ReLU(true),
      nn.Conv2d(to, to, 3, {padding = 1, bias = false}), nn.BatchNorm2d(to), nn.ReLU(true))
end

local UNet, parent = torch.class("UNet", nn.Module)

function UNet:__init(width)
   parent.__init(self)
   self.pool = nn.MaxPool2d(2)
   self.down = nn.ModuleList {double_conv(1, width), double_conv(width, 2 * width)}
   self.middle = double_conv(2 * width, 4 * width)
   self.up = nn.ModuleList {
      nn.ConvTranspose2d(4 * width, 2 * width, 2, {stride = 2}),
      nn.ConvTranspose2d(2 * width, width, 2, {stride = 2}),
   }
   self.join = nn.ModuleList {double_conv(4 * width, 2 * width), double_conv(2 * width, width)}
   self.out = nn.Conv2d(width, 1, 1)
end

function UNet:forward(x)
   local skips = {}
   for i, block in ipairs(self.down) do
      x = block(x)
      skips[i] = x
      x = self.pool(x)
   end
   x = self.middle(x)
   for i, up in ipairs(self.up) do
      x = self.join[i](torch.cat({skips[#skips - i + 1], up(x)}, 2))
   end
   return self.out(x)
end

local function dice(scores, mask)
   local p = torch.sigmoid(scores)
   local both = (p * mask):sum({2, 3, 4})
   return (2 * both + 1) / (p:sum({2, 3, 4}) + mask:sum({2, 3, 4}) + 1)
end

local model = UNet(8)
local optimizer = optim.Adam(model:parameters(), {lr = 1e-2})
local scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, {mode = "max", patience = 10})

for step = 1, opt.steps do
   local picture, mask = batch(opt.batch)
   optimizer:zero_grad(true)
   local scores = model(picture)
   local overlap = dice(scores, mask):mean()
   local loss = F.binary_cross_entropy_with_logits(scores, mask) + 1 - overlap
   loss:backward()
   nn.utils.clip_grad_norm_(model:parameters(), 1.0)
   optimizer:step()
   scheduler:step(overlap:item())
   if step % 20 == 0 then
      print(("step %3d  loss %.3f  dice %.3f"):format(step, loss:item(), overlap:item()))
   end
end

model:eval()
local _ <close> = torch.no_grad()
local picture, mask = batch(64)
print(("dice of new pictures: %.3f"):format(dice(model(picture), mask):mean():item()))
