"""Measures the rows of bench.lua with Stable Baselines3: python bench.py [steps] [name]"""
import sys, time, torch, gymnasium as gym
from stable_baselines3 import PPO, DQN, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
torch.set_num_threads(1)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
def alone(n):
    env = gym.make("CartPole-v1"); env.reset(seed=1)
    for i in range(n):
        _, _, term, trunc, _ = env.step(i % 2)
        if term or trunc: env.reset()
rows = [("environment alone, CartPole-v1", lambda: alone, 1),
        ("PPO, CartPole-v1, 8 environments", lambda: PPO("MlpPolicy", make_vec_env("CartPole-v1", 8), n_steps=256, batch_size=256, n_epochs=10, seed=1, device="cpu").learn, 1),
        ("PPO, CartPole-v1, 1 environment", lambda: PPO("MlpPolicy", "CartPole-v1", seed=1, device="cpu").learn, 1),
        ("DQN, CartPole-v1, 1 environment", lambda: DQN("MlpPolicy", "CartPole-v1", seed=1, device="cpu").learn, 1),
        ("SAC, Pendulum-v1, 1 environment", lambda: SAC("MlpPolicy", "Pendulum-v1", seed=1, device="cpu").learn, 20),
        ("TD3, Pendulum-v1, 1 environment", lambda: TD3("MlpPolicy", "Pendulum-v1", seed=1, device="cpu").learn, 20)]
for name, make, part in [row for row in rows if len(sys.argv) < 3 or sys.argv[2] in row[0]]:
    rates = []
    for _ in range(3):
        run = make(); begun = time.process_time(); run(steps // part)
        rates.append(steps // part / (time.process_time() - begun))
    print("%-34s %9.0f steps a second" % (name, sorted(rates)[1]), flush=True)
