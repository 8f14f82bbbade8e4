-- Denoising diffusion (Ho, Jain and Abbeel, arXiv:2006.11239) on the handwritten digits: a network
-- learns to remove noise, and then makes digits of the requested classes from pure noise:
--
--    tlua examples/diffusion.lua
--    tlua examples/diffusion.lua --steps 6000 --save /tmp/digits.png
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("diffusion.lua", "Makes handwritten digits out of noise.")
parser:option("--steps", "steps of training", 2500)
parser:option("--batch", "digits in a batch", 128)
parser:option("--times", "steps from a digit to noise", 100)
parser:option("--width", "units of each layer", 256)
parser:option("--lr", "learning rate of AdamW at its highest", 2e-3)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
parser:option("--save", "the image file, SVG or PNG", "diffusion.png")
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- Data: pixels from -1 to 1, classes from 1 (the digit 0) to 10 ----------------------------------

local rows = torch.data.CSV(opt.data, {header = false}):tensor()
local images, classes = rows:narrow(2, 1, 64):float() / 8 - 1, rows:select(2, 65) + 1

-- Noise: after t steps x_t = sqrt(kept[t]) x_0 + sqrt(1 - kept[t]) noise -------------------------

local T = opt.times
local beta = torch.linspace(1e-3, 0.12, T)
local kept = (1 - beta):cumprod(1)

-- Model: from a noisy digit, the time and the class to the noise in it ---------------------------

local Denoiser = torch.class("Denoiser", nn.Module)

function Denoiser:__init(width)
   nn.Module.__init(self)
   self.time, self.class = nn.Embedding(T, width), nn.Embedding(10, width)
   self.first = nn.Linear(64, width)
   self.hidden = nn.ModuleList()
   for _ = 1, 3 do
      self.hidden:append(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(),
         nn.Linear(width, width)))
   end
   self.last = nn.Linear(width, 64)
end

function Denoiser:forward(x, t, class)
   local about = self.time(t) + self.class(class)
   local h = self.first(x)
   for _, layer in ipairs(self.hidden) do h = h + layer(h + about) end
   return self.last(h)
end

local model = Denoiser(opt.width)

-- Training ---------------------------------------------------------------------------------------

local optimizer = optim.AdamW(model:parameters(), {lr = opt.lr})
local schedule = optim.lr_scheduler.OneCycleLR(optimizer, opt.lr, opt.steps + 1)
local bar = torch.utils.Progress {total = opt.steps, label = "training"}
local losses, sum = {}, 0
for step = 1, opt.steps do
   local index = torch.randint(1, images:size(1) + 1, {opt.batch})
   local x, class = images:index_select(1, index), classes:index_select(1, index)
   local t = torch.randint(1, T + 1, {opt.batch})
   local share = kept:index_select(1, t):unsqueeze(2)
   local noise = torch.randn_like(x)
   optimizer:zero_grad()
   local guess = model(share:sqrt() * x + (1 - share):sqrt() * noise, t, class)
   local loss = nn.functional.mse_loss(guess, noise)
   loss:backward()
   optimizer:step()
   schedule:step()
   sum = sum + loss:item()
   if step % 25 == 0 then
      losses[#losses + 1] = sum / 25
      sum = 0
   end
   bar:step(1, ("loss %.4f"):format(losses[#losses] or loss:item()))
end
bar:finish(("%d steps, loss %.4f, at first %.4f"):format(
   opt.steps, losses[#losses] or 0, losses[1] or 0))

-- Drawing: from noise, one step back after another -----------------------------------------------

local function draw(class)
   local _ <close> = torch.no_grad()
   local n = class:size(1)
   local x = torch.randn(n, 64)
   for t = T, 1, -1 do
      local b, k = beta[t]:item(), kept[t]:item()
      local noise = model(x, torch.full({n}, t), class)
      x = (x - noise * (b / math.sqrt(1 - k))) / math.sqrt(1 - b)
      if t > 1 then x = x + torch.randn_like(x) * math.sqrt(b) end
   end
   return (x:view(n, 8, 8) / 2 + 0.5):clamp(0, 1)
end

model:evaluate()
local drawn = draw(torch.arange(1, 11):repeat_interleave(8))
print "\nsome of the digits 1 to 8, as they are asked for:\n"
print(torch.utils.plot.image(drawn[{{9, 72, 8}}], {columns = 8}))
torch.utils.plot.image(drawn, {columns = 8, scale = 6, save = opt.save})
print("\neight of each digit are in " .. opt.save)
