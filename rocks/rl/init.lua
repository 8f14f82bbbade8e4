-- init.lua - torch.rl: environments with Gymnasium's interface, and agents that learn in them:
--
--    local rl = torch.rl
--    local agent = rl.PPO(rl.make_vec("CartPole-v1", 8))
--    agent:learn(50000)
--    print(rl.evaluate_policy(agent, rl.make "CartPole-v1"))
--
-- Actions and observations of Discrete spaces count from 1.

require "tlua" -- this call loads the core, so that `require` finds its modules
local lazy = require "tlua.lazy"

return lazy.load({}, lazy.modules("tlua.rl", {
   make = "make make_vec",
   Env = "Env",
   spaces = "Discrete Box",
   Wrapper = "Wrapper",
   TimeLimit = "TimeLimit",
   wrappers = [[ClipAction NormalizeObservation NormalizeReward FrameStackObservation
      RecordEpisodeStatistics]],
   VectorEnv = "VectorEnv",
   ReplayBuffer = "ReplayBuffer",
   advantages = "compute_gae",
   on_policy = "PPO A2C",
   Agent = "Agent",
   DQN = "DQN",
   SAC = "SAC",
   TD3 = "TD3 DDPG",
   noise = "ActionNoise NormalActionNoise OrnsteinUhlenbeckActionNoise",
   evaluation = "evaluate_policy",
}))
