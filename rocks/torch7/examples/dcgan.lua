-- Trains a convolutional generative adversarial network on small images of bright spots, in the
-- manner of dcgan.torch. Run it by: tlua --torch7 dcgan.lua [-steps 60]

require "torch"
require "nn"
require "optim"

local cmd = torch.CmdLine()
cmd:option("-steps", 60, "number of updates of each network")
local opt = cmd:parse(arg)

torch.manualSeed(6)
torch.setdefaulttensortype "torch.FloatTensor"

local nz, ngf, ndf, batch = 8, 8, 8, 16
local real_label, fake_label = 1, 0

local function weights_init(m)
   local name = torch.type(m)
   if name:find "Convolution" then
      m.weight:normal(0, 0.02)
      m:noBias()
   elseif name:find "BatchNormalization" then
      m.weight:normal(1, 0.02)
      m.bias:fill(0)
   end
end

local netG = nn.Sequential()
netG:add(nn.SpatialFullConvolution(nz, ngf * 2, 4, 4))
netG:add(nn.SpatialBatchNormalization(ngf * 2)):add(nn.ReLU(true))
netG:add(nn.SpatialFullConvolution(ngf * 2, ngf, 4, 4, 2, 2, 1, 1))
netG:add(nn.SpatialBatchNormalization(ngf)):add(nn.ReLU(true))
netG:add(nn.SpatialFullConvolution(ngf, 1, 4, 4, 2, 2, 1, 1))
netG:add(nn.Tanh())
netG:apply(weights_init)

local netD = nn.Sequential()
netD:add(nn.SpatialConvolution(1, ndf, 4, 4, 2, 2, 1, 1))
netD:add(nn.LeakyReLU(0.2, true))
netD:add(nn.SpatialConvolution(ndf, ndf * 2, 4, 4, 2, 2, 1, 1))
netD:add(nn.SpatialBatchNormalization(ndf * 2)):add(nn.LeakyReLU(0.2, true))
netD:add(nn.SpatialConvolution(ndf * 2, 1, 4, 4))
netD:add(nn.Sigmoid())
netD:add(nn.View(1):setNumInputDims(3))
netD:apply(weights_init)

local criterion = nn.BCECriterion()
local optimStateG = {learningRate = 0.002, beta1 = 0.5}
local optimStateD = {learningRate = 0.002, beta1 = 0.5}
local parametersD, gradParametersD = netD:getParameters()
local parametersG, gradParametersG = netG:getParameters()

local function real_pictures()
   local x = torch.Tensor(batch, 1, 16, 16):fill(-1)
   for i = 1, batch do
      local r, c = torch.random(3, 11), torch.random(3, 11)
      x[{i, 1, {r, r + 3}, {c, c + 3}}]:fill(1)
   end
   return x
end

local label, noise = torch.Tensor(batch), torch.Tensor(batch, nz, 1, 1)
local errD, errG, fake

local function fDx()
   gradParametersD:zero()
   local real = real_pictures()
   label:fill(real_label)
   local errD_real = criterion:forward(netD:forward(real), label)
   netD:backward(real, criterion:backward(netD.output, label))
   noise:normal(0, 1)
   fake = netG:forward(noise):clone()
   label:fill(fake_label)
   local errD_fake = criterion:forward(netD:forward(fake), label)
   netD:backward(fake, criterion:backward(netD.output, label))
   errD = errD_real + errD_fake
   return errD, gradParametersD
end

local function fGx()
   gradParametersG:zero()
   label:fill(real_label)
   errG = criterion:forward(netD:forward(fake), label)
   local df_dg = netD:updateGradInput(fake, criterion:backward(netD.output, label))
   netG:backward(noise, df_dg)
   return errG, gradParametersG
end

for step = 1, opt.steps do
   optim.adam(fDx, parametersD, optimStateD)
   optim.adam(fGx, parametersG, optimStateG)
   if step % 20 == 0 then print(("step %d: G %.3f, D %.3f"):format(step, errG, errD)) end
end
return fake, errD
