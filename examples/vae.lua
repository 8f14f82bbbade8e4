-- A variational autoencoder (Kingma and Welling, arXiv:1312.6114) of the handwritten digits, which
-- then draws new digits into an image file:
--
--    tlua examples/vae.lua
--    tlua examples/vae.lua --epochs 100 --save /tmp/vae.png
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

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
   self.log_variance = nn.Linear(128, latent)
   self.decoder = nn.Sequential(
      nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
end

function VAE:forward(x)
   local h = self.encoder(x)
   local mean, log_variance = self.mean(h), self.log_variance(h)
   local z = mean + torch.randn_like(mean) * (log_variance / 2):exp()
   return self.decoder(z), mean, log_variance
end

-- The negative lower bound of the log-likelihood of each digit: the reconstruction error of the
-- pixels, and the divergence of the latent distribution from a standard normal one.
local function loss_of(logits, x, mean, log_variance)
   local n = x:size(1)
   local pixels = F.binary_cross_entropy_with_logits(logits, x, {reduction = "sum"}) / n
   local distance = (mean ^ 2 + log_variance:exp() - 1 - log_variance):sum() / (2 * n)
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
      local logits, mean, log_variance = model(x)
      local loss, pixels, distance = loss_of(logits, x, mean, log_variance)
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
