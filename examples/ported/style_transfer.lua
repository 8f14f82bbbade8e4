-- Changes the pixels of a picture until the correlations of its features equal another picture's
-- (Gatys et al. 2015). The features are random convolutions, and formulas draw the pictures:
--
--    tlua examples/ported/style_transfer.lua --save /tmp/styled.png
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("style_transfer.lua", "Gives a picture another one's style.")
parser:option("--steps", "steps of L-BFGS", 30)
parser:option("--size", "pixels of a side", 32)
parser:option("--style", "weight of the style", 1e4)
parser:option("--seed", "seed of the random numbers", 1)
parser:option("--save", "file of the picture", "")
local opt = parser:parse()

torch.manual_seed(opt.seed)

local at = torch.linspace(-1, 1, opt.size)
local y, x = at:unsqueeze(2):expand(opt.size, opt.size), at:unsqueeze(1):expand(opt.size, opt.size)
local disc = (x ^ 2 + y ^ 2):lt(0.5):float()
local content = torch.stack {disc, disc, 1 - disc}:unsqueeze(1)
local stripes = (10 * (x + y)):sin() / 2 + 0.5
local style = torch.stack {stripes, 1 - stripes, stripes * 0.5}:unsqueeze(1)

local features = nn.Sequential(
   nn.Conv2d(3, 16, 3, {padding = 1}), nn.ReLU(), nn.Conv2d(16, 32, 3, {padding = 1}), nn.ReLU())
features:eval()
for _, p in ipairs(features:parameters()) do p:requires_grad_(false) end

local function gram_matrix(input)
   local _, channels, height, width = table.unpack(input.shape)
   local flat = input:view(channels, height * width)
   return flat:mm(flat:t()):div(channels * height * width)
end

local function activations(picture)
   local list = {}
   for i, layer in ipairs(features) do
      picture = layer(picture)
      if i % 2 == 0 then list[#list + 1] = picture end
   end
   return list
end

local target_content = activations(content)[2]:detach()
local target_style = {}
for i, activation in ipairs(activations(style)) do
   target_style[i] = gram_matrix(activation):detach()
end

local picture = content:clone():requires_grad_(true)
local optimizer = optim.LBFGS({picture}, {lr = 0.5, line_search_fn = "strong_wolfe"})

local first, last
for _ = 1, opt.steps do
   optimizer:step(function()
      torch.no_grad(function() picture:clamp_(0, 1) end)
      optimizer:zero_grad()
      local found = activations(picture)
      local style_loss = 0
      for i, activation in ipairs(found) do
         style_loss = style_loss + F.mse_loss(gram_matrix(activation), target_style[i])
      end
      local loss = opt.style * style_loss + F.mse_loss(found[2], target_content)
      loss:backward()
      last = loss:item()
      first = first or last
      return loss
   end)
end
torch.no_grad(function() picture:clamp_(0, 1) end)
print(("loss %.3f at first, %.3f after %d steps"):format(first, last, opt.steps))
if opt.save ~= "" then torch.save((picture:detach()[1] * 255):byte(), opt.save) end
