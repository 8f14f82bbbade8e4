-- vocabulary.lua - explains the parameters of torch.rl's functions, for `help` and the manual.
-- lua/tlua/repl/vocabulary.lua describes the format.
return [[
batch_size: the number of transitions in a step of the optimizer
buffer_size: the number of transitions that are kept
clip_range: the greatest change of a probability's ratio
double: whether the network chooses the action that the target network values
dueling: whether the network has separate parts for values and advantages
ent_coef: the weight of the entropy
env: the environment, or several
exploration_final_eps: the probability of a random action at the end
exploration_fraction: the share of the steps in which that probability falls
exploration_initial_eps: the probability of a random action at the beginning
gae_lambda: the parameter of the advantages' estimate, from 0 to 1
gamma: the discount
gradient_steps: the number of updates each time
hidden: the widths of hidden layers
learning_rate: the optimizer's learning rate
learning_starts: the number of steps before the first update
max_grad_norm: the highest norm of gradients
n_epochs: the number of passes over the collected steps
n_eval_episodes: the number of episodes
normalize_advantage: whether advantages get mean 0 and deviation 1
deterministic: whether the agent takes the best action
prioritized: whether transitions are drawn by their errors
seed: what the random numbers start from
target_update_interval: the number of steps between updates of the target network
tau: how far the target network follows, from 0 to 1
vf_coef: the weight of the values' loss
]]
