-- A generator and a discriminator of convolutions learn against each other to draw 8 x 8 digits
-- (Radford et al. 2015):
--
--    tlua examples/ported/dcgan.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local here = arg[0]:match "^(.*)/" or "."

local parser = torch.utils.options("dcgan.lua", "Learns to draw digits.")
parser:option("--epochs", "passes over the digits", 10)
parser:option("--batch", "digits in a batch", 64)
parser:option("--latent", "numbers that a drawing is made of", 16)
parser:option("--lr", "learning rate of both Adams", 1e-3)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local rows = torch.data.CSV(here .. "/../data/digits.csv", {header = false}):tensor()
-- the values are from -1 to 1
local images = rows:narrow(2, 1, 64):float():div(8):sub(1):view(-1, 1, 8, 8)
local dataset = torch.data.TensorDataset(images)
local loader = torch.data.DataLoader(dataset,
   {batch_size = opt.batch, shuffle = true, drop_last = true})

local function weights_init(m)
   if torch.isinstance(m, nn.Conv2d) or torch.isinstance(m, nn.ConvTranspose2d) then
      nn.init.normal_(m.weight, 0, 0.05)
   elseif torch.isinstance(m, nn.BatchNorm2d) then
      nn.init.normal_(m.weight, 1, 0.02)
      nn.init.zeros_(m.bias)
   end
end

local generator = nn.Sequential(
   nn.ConvTranspose2d(opt.latent, 64, 2, {bias = false}),                          -- 2 x 2
   nn.BatchNorm2d(64), nn.ReLU(true),
   nn.ConvTranspose2d(64, 32, 4, {stride = 2, padding = 1, bias = false}),         -- 4 x 4
   nn.BatchNorm2d(32), nn.ReLU(true),
   nn.ConvTranspose2d(32, 1, 4, {stride = 2, padding = 1}),                        -- 8 x 8
   nn.Tanh()
)
local discriminator = nn.Sequential(
   nn.Conv2d(1, 32, 4, {stride = 2, padding = 1}), nn.LeakyReLU(0.2, true),        -- 4 x 4
   nn.Conv2d(32, 64, 4, {stride = 2, padding = 1, bias = false}),                  -- 2 x 2
   nn.BatchNorm2d(64), nn.LeakyReLU(0.2, true),
   nn.Conv2d(64, 1, 2), nn.Flatten() -- gives one score for each image
)
generator:apply(weights_init)
discriminator:apply(weights_init)

local settings = {lr = opt.lr, betas = {0.5, 0.999}}
local generator_optimizer = optim.Adam(generator:parameters(), settings)
local discriminator_optimizer = optim.Adam(discriminator:parameters(), settings)
local real, fake = torch.ones(opt.batch, 1), torch.zeros(opt.batch, 1)

for epoch = 1, opt.epochs do
   local loss_g, loss_d
   for batch in loader:iter() do
      local noise = torch.randn(opt.batch, opt.latent, 1, 1)
      local drawn = generator(noise)

      discriminator_optimizer:zero_grad()
      loss_d = F.binary_cross_entropy_with_logits(discriminator(batch), real)
         + F.binary_cross_entropy_with_logits(discriminator(drawn:detach()), fake)
      loss_d:backward()
      discriminator_optimizer:step()

      generator_optimizer:zero_grad()
      loss_g = F.binary_cross_entropy_with_logits(discriminator(drawn), real)
      loss_g:backward()
      generator_optimizer:step()
   end
   print(("epoch %2d  generator %.3f  discriminator %.3f"):format(
      epoch, loss_g:item(), loss_d:item()))
end

-- measures how well the generator has learned: drawings and digits should be about equally bright
-- in each row of pixels
generator:eval()
local drawn = torch.no_grad(function() return generator(torch.randn(256, opt.latent, 1, 1)) end)
local apart = (drawn:mean({1, 4}) - images:mean({1, 4})):abs():max():item()
print(("rows' brightness differs from the digits' by %.3f"):format(apart))
