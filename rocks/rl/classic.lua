-- classic.lua - the environments of classic control: CartPole (Barto, Sutton, Anderson 1983),
-- Acrobot (Sutton 1996), MountainCar (Moore 1990) and Pendulum.

local class = require "tlua.class"
local Env = require "tlua.rl.Env"
local spaces = require "tlua.rl.spaces"

local M = {}

local cos, sin, pi <const> = math.cos, math.sin, math.pi
local INF <const> = math.huge

local function clip(x, low, high) return math.max(low, math.min(high, x)) end

local function define(name, actions, low, high)
   local cls = class.class("rl." .. name, Env)
   function cls:__init()
      self.action_space = type(actions) == "number" and spaces.Discrete(actions)
         or spaces.Box(actions[1], actions[2])
      self.observation_space = spaces.Box(low, high)
   end
   function cls:observe() return {table.unpack(self.state)} end
   M[name] = cls
   return cls
end

-- CartPole ----------------------------------------------------------------------------------------

local angle_limit <const> = 12 * 2 * pi / 360
local CartPole = define("CartPole", 2, {-4.8, -INF, -2 * angle_limit, -INF},
   {4.8, INF, 2 * angle_limit, INF})

function CartPole:start() self.state = self:uniform(4, -0.05, 0.05) end

function CartPole:advance(action)
   local x, dx, angle, turn = table.unpack(self.state)
   local force = action == 2 and 10.0 or -10.0
   local c, s = cos(angle), sin(angle)
   local common = (force + 0.05 * turn ^ 2 * s) / 1.1
   local dturn = (9.8 * s - c * common) / (0.5 * (4 / 3 - 0.1 * c ^ 2 / 1.1))
   local ddx = common - 0.05 * dturn * c / 1.1
   local t = 0.02
   self.state = {x + t * dx, dx + t * ddx, angle + t * turn, turn + t * dturn}
   local new_x, new_angle = self.state[1], self.state[3]
   return 1.0, new_x < -2.4 or new_x > 2.4 or new_angle < -angle_limit or new_angle > angle_limit
end

-- Acrobot -----------------------------------------------------------------------------------------

local Acrobot = define("Acrobot", 3, {-1, -1, -1, -1, -4 * pi, -9 * pi},
   {1, 1, 1, 1, 4 * pi, 9 * pi})

function Acrobot:start() self.state = self:uniform(4, -0.1, 0.1) end

function Acrobot:observe()
   local s = self.state
   return {cos(s[1]), sin(s[1]), cos(s[2]), sin(s[2]), s[3], s[4]}
end

-- Returns the derivatives of the angles and of their speeds, for links of 1 kg and 1 m.
local function acrobot_slope(s, torque)
   local a, b, da, db = s[1], s[2], s[3], s[4]
   local d1 = 0.25 + (1 + 0.25 + cos(b)) + 2
   local d2 = 0.25 + 0.5 * cos(b) + 1
   local phi2 = 0.5 * 9.8 * cos(a + b - pi / 2)
   local phi1 = -0.5 * db ^ 2 * sin(b) - db * da * sin(b) + 1.5 * 9.8 * cos(a - pi / 2) + phi2
   local ddb = (torque + d2 / d1 * phi1 - 0.5 * da ^ 2 * sin(b) - phi2) / (1.25 - d2 ^ 2 / d1)
   return {da, db, -(d2 * ddb + phi1) / d1, ddb}
end

local function moved(s, slope, t)
   local list = {}
   for i = 1, 4 do list[i] = s[i] + t * slope[i] end
   return list
end

local function wrapped(x)
   while x > pi do x = x - 2 * pi end
   while x < -pi do x = x + 2 * pi end
   return x
end

function Acrobot:advance(action)
   local s, torque, t = self.state, action - 2.0, 0.2
   local k1 = acrobot_slope(s, torque)
   local k2 = acrobot_slope(moved(s, k1, t / 2), torque)
   local k3 = acrobot_slope(moved(s, k2, t / 2), torque)
   local k4 = acrobot_slope(moved(s, k3, t), torque)
   local n = {}
   for i = 1, 4 do n[i] = s[i] + t / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) end
   self.state = {wrapped(n[1]), wrapped(n[2]), clip(n[3], -4 * pi, 4 * pi),
      clip(n[4], -9 * pi, 9 * pi)}
   n = self.state
   local terminated = -cos(n[1]) - cos(n[2] + n[1]) > 1
   return terminated and 0.0 or -1.0, terminated
end

-- MountainCar -------------------------------------------------------------------------------------

local function start_in_valley(self) self.state = {self:uniform(1, -0.6, -0.4)[1], 0.0} end

-- Moves the car by a push; returns whether it has reached the goal.
local function drive(self, push, goal)
   local x, speed = self.state[1], self.state[2]
   speed = clip(speed + push - 0.0025 * cos(3 * x), -0.07, 0.07)
   x = clip(x + speed, -1.2, 0.6)
   if x == -1.2 and speed < 0 then speed = 0.0 end
   self.state = {x, speed}
   return x >= goal and speed >= 0
end

local MountainCar = define("MountainCar", 3, {-1.2, -0.07}, {0.6, 0.07})

MountainCar.start = start_in_valley

function MountainCar:advance(action) return -1.0, drive(self, (action - 2) * 0.001, 0.5) end

local Continuous = define("MountainCarContinuous", {{-1.0}, {1.0}}, {-1.2, -0.07}, {0.6, 0.07})

Continuous.start = start_in_valley

function Continuous:advance(action)
   local terminated = drive(self, clip(action[1], -1, 1) * 0.0015, 0.45)
   return (terminated and 100.0 or 0.0) - action[1] ^ 2 * 0.1, terminated
end

-- Pendulum ----------------------------------------------------------------------------------------

local Pendulum = define("Pendulum", {{-2.0}, {2.0}}, {-1, -1, -8}, {1, 1, 8})

function Pendulum:start() self.state = {self:uniform(1, -pi, pi)[1], self:uniform(1, -1, 1)[1]} end

function Pendulum:observe()
   return {cos(self.state[1]), sin(self.state[1]), self.state[2]}
end

function Pendulum:advance(action)
   local angle, speed = self.state[1], self.state[2]
   local u = clip(action[1], -2, 2)
   local cost = ((angle + pi) % (2 * pi) - pi) ^ 2 + 0.1 * speed ^ 2 + 0.001 * u ^ 2
   speed = clip(speed + (15 * sin(angle) + 3 * u) * 0.05, -8, 8)
   self.state = {angle + speed * 0.05, speed}
   return -cost, false
end

return M
