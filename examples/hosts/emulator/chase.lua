-- chase.lua - a script for mGBA: presses left or right in each frame, and rewards a press that
-- brings the player nearer to the prey. The policy learns by REINFORCE, from batches of 32 frames.
-- The script knows the addresses of the player and of the prey, and learns the effects of the keys
-- from these rewards.
local torch = require "tlua"
local nn = torch.nn

local PLAYER <const>, PREY <const> = 0xC000, 0xC001
local RIGHT <const>, LEFT <const> = 1 << 4, 1 << 5

torch.manual_seed(1)
torch.set_num_threads(1)
local policy = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))
local optimizer = torch.optim.Adam(policy:parameters(), {lr = 0.03})

-- Returns how far the prey is to the right of the player. Positions wrap around after 256.
local function distance()
   return (emu:read8(PREY) - emu:read8(PLAYER) + 128) % 256 - 128
end

local frames, nearer = 0, 0
local seen, keys, rewards = {}, {}, {}
local last, key

local function learn()
   local logits = policy(torch.tensor(seen):view(-1, 1))
   local loss = nn.functional.cross_entropy(logits, torch.tensor(keys), {reduction = "none"})
   loss = (loss * torch.tensor(rewards)):mean()
   optimizer:zero_grad()
   loss:backward()
   optimizer:step()
   seen, keys, rewards = {}, {}, {}
end

callbacks:add("frame", function()
   local now = distance()
   if key and math.abs(now - last) <= 1 and last ~= 0 then -- learns only if the prey has not leapt
      local gain = math.abs(last) - math.abs(now)
      nearer = nearer + math.max(gain, 0)
      seen[#seen + 1], keys[#keys + 1], rewards[#rewards + 1] = last / 32, key, gain + 0.0
      if #seen == 32 then learn() end
   end
   frames = frames + 1
   if frames % 600 == 0 then
      print(("frames %d to %d: nearer in %d of 600"):format(frames - 599, frames, nearer))
      nearer = 0
   end
   local _ <close> = torch.no_grad()
   local odds = policy(torch.tensor {{now / 32}}):softmax(2)
   last, key = now, odds:multinomial(1):item()
   emu:setKeys(key == 1 and LEFT or RIGHT)
end)
