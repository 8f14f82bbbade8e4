-- keywords.lua - trains a recogniser of a few words in less than a minute. The words are synthetic.
-- Each consists of two vowels, made of harmonics that are loud near the vowels' formants and whose
-- pitch falls or rises. A word begins at a random time within half a second of noise.
--
--    tlua rocks/audio/examples/keywords.lua [steps]

local torch = require "tlua"

local nn, optim = torch.nn, torch.optim
local F, audio = nn.functional, torch.audio

local steps = tonumber(arg[1]) or 120
local rate <const>, samples <const>, harmonics <const> = 8000, 4000, 30

torch.manual_seed(1)

-- Data --------------------------------------------------------------------------------------------

local formants <const> = {a = {730, 1090, 2440}, e = {530, 1840, 2480}, i = {270, 2290, 3010},
   o = {570, 840, 2410}, u = {300, 870, 2240}}
local words <const> = {"ai", "ia", "au", "ua", "oi", "io", "eu", "ue", "oe", "eo"}

local places = {}
for k, word in ipairs(words) do
   places[k] = {formants[word:sub(1, 1)], formants[word:sub(2, 2)]}
end
places = torch.tensor(places):float() -- shape (words, 2, formants)

-- Returns n random numbers between low and high as a tensor (n, 1).
local function between(n, low, high) return torch.rand(n, 1) * (high - low) + low end

-- Synthesizes words: returns waveforms (n, samples) for labels (n), which are numbers of words.
local function say(labels)
   local n = labels:size(1)
   local t = torch.arange(samples):float() / rate -- seconds
   local length = between(n, 0.2, 0.4)
   -- the position within the word, which goes from 0 to 1
   local share = (t - torch.rand(n, 1) * (0.5 - length)) / length
   local pitch = between(n, 90, 240) * (1 + between(n, -0.3, 0.3) * share)
   local phase = (pitch * (2 * math.pi / rate)):cumsum(2)
   -- the speaker's vocal tract scales all formants by this factor
   local size = between(n, 0.85, 1.2):unsqueeze(3)
   local ends = places:index_select(1, labels) * size
   local glide = torch.sigmoid((share - 0.5) * 12):unsqueeze(3)
   local centers = ends:narrow(2, 1, 1) * (1 - glide) + ends:narrow(2, 2, 1) * glide
   local voice = torch.zeros(n, samples)
   for k = 1, harmonics do
      local hz = pitch * k
      local distance = (hz:unsqueeze(3) - centers) / 120
      local loud = (torch.exp(-distance:square()) * torch.tensor {1, 0.6, 0.3}):sum(3) + 0.02
      voice = voice + torch.sin(phase * k) * loud * hz:lt(rate / 2)
   end
   local gate = torch.sigmoid(share * 40) * torch.sigmoid((1 - share) * 40)
   return voice * gate * between(n, 0.1, 0.3) + torch.randn(n, samples) * between(n, 0.005, 0.05)
end

local function batch(n)
   local labels = torch.randint(1, #words + 1, {n})
   return say(labels), labels
end

-- Model -------------------------------------------------------------------------------------------

local mel = audio.transforms.MelSpectrogram {sample_rate = rate, n_fft = 256, hop_length = 100,
   n_mels = 40}
local masks = audio.transforms.SpecAugment(1, 5, 1, 5, {zero_masking = true})

local function features(x) return (mel(x) + 1e-5):log() end

local net = nn.Sequential(
   nn.BatchNorm1d(40), nn.Conv1d(40, 64, 5, {padding = 2}), nn.ReLU(), nn.MaxPool1d(2),
   nn.Conv1d(64, 64, 5, {padding = 2}), nn.BatchNorm1d(64), nn.ReLU(), nn.MaxPool1d(2),
   nn.Conv1d(64, 96, 5, {padding = 2}), nn.BatchNorm1d(96), nn.ReLU(), nn.AdaptiveMaxPool1d(1),
   nn.Flatten(), nn.Linear(96, #words))

local optimizer = optim.AdamW(net:parameters(), {lr = 3e-3})
local schedule = optim.lr_scheduler.OneCycleLR(optimizer, {max_lr = 5e-3, total_steps = steps})

-- Training ----------------------------------------------------------------------------------------

local start = os.time()
for step = 1, steps do
   local x, labels = batch(32)
   local loss = F.cross_entropy(net(masks(features(x))), labels)
   optimizer:zero_grad()
   loss:backward()
   optimizer:step()
   schedule:step()
   if step % 20 == 0 then print(("step %3d  loss %.3f"):format(step, loss:item())) end
end

net:eval()
local right, seen = 0, 0
torch.no_grad(function()
   for _ = 1, 10 do
      local x, labels = batch(100)
      right = right + net(features(x)):argmax(2):eq(labels):sum():item()
      seen = seen + 100
   end
end)
print(("accuracy %.1f %% of %d words, %d seconds"):format(100 * right / seen, seen,
   os.time() - start))
