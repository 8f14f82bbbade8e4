-- cd rocks/rl && luarocks --lua-version 5.4 make
rockspec_format = "3.0"
package = "tlua-rl"
version = "scm-1"
source = {url = "git+file://."}
description = {
   summary = "Environments with Gymnasium's interface, and agents that learn in them",
   license = "MIT",
}
dependencies = {"lua ~> 5.4", "tlua"}
build = {
   type = "builtin",
   modules = {
      ["tlua.rl.Agent"] = "Agent.lua",
      ["tlua.rl.DQN"] = "DQN.lua",
      ["tlua.rl.Env"] = "Env.lua",
      ["tlua.rl.ReplayBuffer"] = "ReplayBuffer.lua",
      ["tlua.rl.SAC"] = "SAC.lua",
      ["tlua.rl.TD3"] = "TD3.lua",
      ["tlua.rl.TimeLimit"] = "TimeLimit.lua",
      ["tlua.rl.VectorEnv"] = "VectorEnv.lua",
      ["tlua.rl.Wrapper"] = "Wrapper.lua",
      ["tlua.rl.advantages"] = "advantages.lua",
      ["tlua.rl.checks"] = "checks.lua",
      ["tlua.rl.classic"] = "classic.lua",
      ["tlua.rl.evaluation"] = "evaluation.lua",
      ["tlua.rl"] = "init.lua",
      ["tlua.rl.make"] = "make.lua",
      ["tlua.rl.noise"] = "noise.lua",
      ["tlua.rl.off_policy"] = "off_policy.lua",
      ["tlua.rl.on_policy"] = "on_policy.lua",
      ["tlua.rl.spaces"] = "spaces.lua",
      ["tlua.rl.toys"] = "toys.lua",
      ["tlua.rl.wrappers"] = "wrappers.lua",
      ["tlua.rl.vocabulary"] = "vocabulary.lua",
   },
}
