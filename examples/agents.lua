-- An agent learns to balance a pole by proximal policy optimisation, and is saved when it can:
--
--    tlua examples/agents.lua
--    tlua examples/agents.lua --agent dqn
--    tlua examples/agents.lua --agent sac         swings a pendulum up
local torch = require "tlua"
local rl = torch.rl

local parser = torch.utils.options("agents.lua", "Learns to balance a pole.")
parser:option("--agent", "ppo, dqn or sac", "ppo")
parser:option("--steps", "steps of all environments; 0: as many as the agent needs", 0)
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--save", "where the agent goes", "agent.safetensors")
local opt = parser:parse()

local id = opt.agent == "sac" and "Pendulum-v1" or "CartPole-v1"
local env, steps = rl.make(id), opt.steps
local agent

if opt.agent == "ppo" then
   agent = rl.PPO(rl.make_vec(id, 8), {n_steps = 32, batch_size = 256, n_epochs = 20,
      gae_lambda = 0.8, gamma = 0.98, learning_rate = 1e-3, seed = opt.seed})
   steps = steps > 0 and steps or 60000
elseif opt.agent == "dqn" then
   agent = rl.DQN(rl.make_vec(id, 4), {learning_rate = 1e-3, batch_size = 128,
      learning_starts = 1000, train_freq = 16, gradient_steps = 8, target_update_interval = 400,
      exploration_fraction = 0.2, exploration_final_eps = 0.04, hidden = {128, 128},
      seed = opt.seed})
   steps = steps > 0 and steps or 60000
else
   agent = rl.SAC(rl.make(id), {learning_rate = 1e-3, batch_size = 128, hidden = {64, 64},
      seed = opt.seed})
   steps = steps > 0 and steps or 10000
end

-- Training stops early once ten episodes have nearly the highest possible mean return.
local goal = id == "CartPole-v1" and 495 or -160
local every, next_look = steps // 20, steps // 20
agent:learn(steps, function()
   if agent.num_timesteps < next_look then return false end
   next_look = agent.num_timesteps + every
   local mean = rl.evaluate_policy(agent, env, {seed = 1})
   print(("%6d steps: mean return %.1f"):format(agent.num_timesteps, mean))
   return mean >= goal
end)
agent:save(opt.save)
local mean, deviation = rl.evaluate_policy(agent, env, {n_eval_episodes = 20, seed = 100})
print(("20 other episodes: %.1f, deviation %.1f"):format(mean, deviation))
