-- Trains a variational autoencoder (Kingma and Welling, arXiv:1312.6114) on the handwritten digits,
-- which then draws new digits into an image file:
--
--    tlua examples/vae.lua
--    tlua examples/vae.lua --epochs 100 --save /tmp/vae.png
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional
local Normal, kl_divergence = torch.distributions.Normal, torch.distributions.kl_divergence

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("vae.lua", "Learns to draw handwritten digits.")
parser:option("--epochs", "passes over the digits", 60)
parser:option("--batch", "digits in a batch", 64)
parser:option("--latent", "numbers that stand for a digit", 8)
parser:option("--lr", "learning rate of Adam", 2e-3)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--data", "lines of 64 pixels and the digit", here .. "/data/digits.csv")
parser:option("--save", "the image file, SVG or PNG", "vae.png")
local opt = parser:parse()

torch.manual_seed(opt.seed)

-- Data: (N, 64), each pixel from 0 to 1 ---------------------------------------------------------

local rows = torch.data.CSV(opt.data, {header = false}):tensor()
local images = rows:narrow(2, 1, 64):float() / 16
local loader = torch.data.DataLoader(torch.data.TensorDataset(images),
   {batch_size = opt.batch, shuffle = true})

-- Model -----------------------------------------------------------------------------------------

local VAE = torch.class("VAE", nn.Module)

function VAE:__init(latent)
   nn.Module.__init(self)
   self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
   self.mean = nn.Linear(128, latent)
   self.log_scale = nn.Linear(128, latent)
   self.decoder = nn.Sequential(
      nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
end

function VAE:forward(x)
   local h = self.encoder(x)
   local latent = Normal(self.mean(h), self.log_scale(h):exp())
   return self.decoder(latent:rsample()), latent
end

-- Returns the negative lower bound of each digit's log-likelihood: the reconstruction error of the
-- pixels, plus the divergence of the latent distribution from a standard normal distribution.
local function loss_of(logits, x, latent)
   local n = x:size(1)
   local pixels = F.binary_cross_entropy_with_logits(logits, x, {reduction = "sum"}) / n
   local distance = kl_divergence(latent, Normal(0, 1)):sum() / n
   return pixels + distance, pixels, distance
end

-- Training --------------------------------------------------------------------------------------

local model = VAE(opt.latent)
local optimizer = optim.Adam(model:parameters(), {lr = opt.lr})
local bar = torch.utils.Progress {total = opt.epochs, label = "training", unit = "epochs"}
local first, last
for _ = 1, opt.epochs do
   local sums = torch.zeros(3)
   for x in loader:iter() do
      optimizer:zero_grad()
      local logits, latent = model(x)
      local loss, pixels, distance = loss_of(logits, x, latent)
      loss:backward()
      optimizer:step()
      sums = sums + torch.stack {loss:detach(), pixels:detach(), distance:detach()} * x:size(1)
   end
   last = (sums / images:size(1)):tolist()
   first = first or last[1]
   bar:step(1, ("loss %.2f"):format(last[1]))
end
bar:finish(("%d epochs, loss %.2f (pixels %.2f + distance %.2f), at first %.2f"):format(
   opt.epochs, last[1], last[2], last[3], first))

-- Drawing ---------------------------------------------------------------------------------------

model:evaluate()
local drawn = torch.no_grad(function()
   return model.decoder(torch.randn(80, opt.latent)):sigmoid():view(-1, 8, 8)
end)
print "\ndigits that nobody wrote:\n"
print(torch.utils.plot.image(drawn[{{1, 8}}], {columns = 8}))
torch.utils.plot.image(drawn, {columns = 16, scale = 4, save = opt.save})
print("\n80 of them are in " .. opt.save)
