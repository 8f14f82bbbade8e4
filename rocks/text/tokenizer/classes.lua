-- classes.lua - the characters of each class.
-- rocks/text/spec/fixtures/characters.py has generated this file.

return {
   categories = [[
     l20 i X3 Z X3 T U X Y X S X2 Oa X2 Y3 X2 G1a T X U g R g H1a T Y U Y l21 i X Z4 h X g h K V Y
     m h g h Y Q2 g H X2 g Q K W Q3 X G17 Y G7 H18 Y H8 G H G H G H G H G H G H G H G H G H G H G H
     G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H2 G H G H G H G H G H G H G
     H G H2 G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H
     G H G2 H G H G H3 G2 H G H G2 H G3 H2 G4 H G2 H G3 H3 G2 H G2 H G H G H G2 H G H2 G H G2 H G3
     H G H G2 H2 K G H3 K4 G I H G I H G I H G H G H G H G H G H G H G H G H2 G H G H G H G H G H G
     H G H G H G H2 G I H G H G3 H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H
     G H G H G H G H G H G H G H G H G H G H G H G H G H7 G2 H G2 H2 G H G4 H G H G H G H G H45 K
     H1b J12 g4 Jc ge J5 g7 J g J g11 L70 G H G H J g G H p2 J H3 X G p4 g2 G X G3 p G p G2 H G11 p
     G9 H23 G H2 G3 H3 G H G H G H G H G H G H G H G H G H G H G H G H5 G H Y G H G2 H2 G33 H30 G H
     G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H h L5 N2 G H G H G H G H G H G
     H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G2 H G H
     G H G H G H G H G H2 G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G
     H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H
     G H G H G H G H G H G H p G26 p2 J X6 H29 X S p2 h2 Z p L2d S L X L2 X L2 X L p8 K1b p4 K4 X2
     pb m6 Y3 X2 Z X2 h2 Lb X m X3 K20 J Ka L15 Oa X4 K2 L K63 X K L7 m h L6 J2 L2 h L4 K2 Oa K3 h2
     K Xe p m K L K1e L1b p2 K59 Lb K pe Oa K21 L9 J2 h X3 J p2 L Z2 K16 L4 J L9 J L3 J L5 p2 Xf p
     K19 L3 p2 X p Kb p5 K18 g K6 p m2 p5 L9 K29 J L18 m L20 M K36 L M L K M3 L8 M4 L M2 K L7 Ka L2
     X2 Oa X J Kf L M2 p K8 p2 K2 p2 K16 p K7 p K p3 K4 p2 L K M3 L4 p2 M2 p2 M2 L K p8 M p4 K2 p
     K3 L2 p2 Oa K2 Z2 Q6 h Z K X L p2 L2 M p K6 p4 K2 p2 K16 p K7 p K2 p K2 p K2 p2 L p M3 L2 p4
     L2 p2 L3 p3 L p7 K4 p K p7 Oa L2 K3 L X pa L2 M p K9 p K3 p K16 p K7 p K2 p K5 p2 L K M3 L5 p
     L2 M p M2 L p2 K pf K2 L2 p2 Oa X Z p7 K L6 p L M2 p K8 p2 K2 p2 K16 p K7 p K2 p K5 p2 L K M L
     M L4 p2 M2 p2 M2 L p7 L2 M p4 K2 p K3 L2 p2 Oa h K Q6 pa L K p K6 p3 K3 p K4 p3 K2 p K p K2 p3
     K2 p3 K3 p3 Kc p4 M2 L M2 p3 M3 p M3 L p2 K p6 M pe Oa Q3 h6 Z h p5 L M3 L K8 p K3 p K17 p K10
     p2 L K L3 M4 p L3 p L4 p7 L2 p K3 p2 K p2 K2 L2 p2 Oa p7 X Q7 h K L M2 X K8 p K3 p K17 p Ka p
     K5 p2 L K M L M5 p L M2 p M2 L2 p7 M2 p6 K2 p K2 L2 p2 Oa p K2 M pc L2 M2 K9 p K3 p K29 L2 K
     M3 L4 p M3 p M3 L K h p4 K3 M Q7 K3 L2 p2 Oa Q9 h K6 p L M2 p K12 p3 K18 p K9 p K p2 K7 p3 L
     p4 M3 L3 p L p M8 p6 Oa p2 M2 X pc K30 L K2 L7 p4 Z K6 J L8 X Oa X2 p25 K2 p K p K5 p K18 p K
     p Ka L K2 L9 K p2 K5 p J p L7 p Oa p2 K4 p20 K h3 Xf h X h3 L2 h6 Oa Qa h L h L h L T U T U M2
     K8 p K24 p4 Le M L5 X L2 K5 Lb p L24 p h8 L h6 p h2 X5 h4 X2 p25 K2b M2 L4 M L6 M L2 M2 L2 K
     Oa X6 K6 M2 L2 K4 L3 K M3 K2 M7 K3 L4 Kd L M2 L2 M6 L K M Oa M3 L h2 G26 p G p5 G p2 H2b X J
     H3 K149 p K4 p2 K7 p K p K4 p2 K29 p K4 p2 K21 p K4 p2 K7 p K p K4 p2 Kf p K39 p K4 p2 K43 p2
     L3 X9 Q14 p3 K10 ha p6 G56 p2 H6 p2 S K26c h X K11 i K1a T U p3 K4b X3 P3 K8 p7 K12 L3 M p9
     K13 L2 M X2 p9 K12 L2 pc Kd p K3 p L2 pc K34 L2 M L7 M8 L M2 Lb X3 J X3 Z K L p2 Oa p6 Qa p6
     X6 S X4 L3 m L Oa p6 K23 J K35 p7 K5 L2 K22 L K p5 K46 pa K1f p L3 M4 L2 M3 p4 M2 L M6 L3 p4 h
     p3 X2 Oa K1e p2 K5 pb K2c p4 K1a p6 Oa Q p3 h22 K17 L2 M2 L p2 X2 K35 M L M L7 p L M L M2 L8
     M6 La p2 L Oa p6 Oa p6 X7 J X6 p2 Le N L10 p31 L4 M K2f L M L5 M L M5 L M2 K8 p X2 Oa X7 ha L9
     h9 X3 L2 M K1e M L4 M2 L2 M L3 K2 Oa K2c L M L2 M3 L M L3 M2 p8 X4 K24 M8 L8 M2 L2 p3 X5 Oa p3
     K3 Oa K1e J6 X2 H9 G H p5 G2b p2 G3 X8 p8 L3 X Ld M L7 K4 L K6 L K2 M L2 K p5 H2c J3f Hd J H22
     J25 L40 G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G
     H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H
     G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G
     H G H G H G H G H G H G H9 G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H
     G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G
     H G H G H G H G H G H G H G H G H9 G8 H6 p2 G6 p2 H8 G8 H8 G8 H6 p2 G6 p2 H8 p G p G p G p G
     H8 G8 He p2 H8 I8 H8 I8 H8 I8 H5 p H2 G4 I g H g3 H3 p H2 G4 I g3 H4 p2 H2 G4 p g3 H8 G5 g3 p2
     H3 p H2 G4 I g2 p ib m5 S6 X2 V W T V2 W T V X8 j k m5 i X9 V W X4 R2 X3 Y T U Xb Y X R Xa i
     m5 p ma Q J p2 Q6 Y3 T U J Qa Y3 T U p Jd p3 Z21 pf Ld N4 L N3 Lc pf h2 G h4 G h2 H G3 H2 G3 H
     h G h2 Y G5 h6 G h G h G h G4 h H G4 H K4 H h2 H2 G2 Y5 G H4 h Y h2 H h Q10 P23 G H P4 Q h2 p4
     Y5 h5 Y2 h4 Y h2 Y h2 Y h7 Y h1f Y2 h2 Y h Y h1f Y10c h8 T U T U h14 Y2 h7 T U h51 Y h1e Y19
     h28 Y6 h48 p16 hb p15 Q3c h4e Q16 hb7 Y h9 Y h36 Y8 h6f Y hf8 T U T U T U T U T U T U T U Q1e
     h2c Y5 T U Y1f T U T U T U T U T U Y10 h100 Y83 T U T U T U T U T U T U T U T U T U T U T U
     Y3f T U T U Y20 T U Y102 h30 Y15 h2 Y6 h27 p2 h20 p h69 G30 H30 G H G3 H2 G H G H G H G4 H G
     H2 G H6 J2 G3 H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G
     H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H
     G H G H G H G H G H G H2 h6 G H G H L3 G H p5 X4 Q X2 H26 p H p5 H p2 K38 p7 J X pe L K17 p9
     K7 p K7 p K7 p K7 p K7 p K7 p K7 p K7 p L20 X2 V W V W X3 V W X V W X9 S X2 S X V W X2 V W T U
     T U T U T U X5 J Xa S2 X4 S X T Xd h2 X3 T U T U T U T U S p22 h1a p h59 pc hd6 p1a h10 i X3 h
     J K P T U T U T U T U T U h2 T U T U T U T U S T U2 h P9 L4 M2 S J5 h2 P3 J K X h2 p K56 p2 L2
     g2 J2 K S K5a X J3 K p5 K2b p K5e p h2 Q4 ha K20 h26 p9 h K10 h1f p Qa h1e Q8 h Qf h20 Qa h27
     Qf h140 K19c0 h40 K5215 J K477 p3 h37 p9 K28 J6 X2 K10c J X3 K10 Oa K2 p14 G H G H G H G H G H
     G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H K L N3 X La X J G H G
     H G H G H G H G H G H G H G H G H G H G H G H G H J2 L2 K46 Pa L2 X6 p8 g17 J9 g2 G H G H G H
     G H G H G H G H3 G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G H G
     H G H G H G H G H G H G H G H G H G H G H G H J H8 G H G H G2 H G H G H G H G H J g2 G H G H K
     G H G H3 G H G H G H G H G H G H G H G H G H G H G5 H G5 H G H G H G H G H G H G H G H G4 H G
     H G2 H p2 G H p H p H G H G H G H G p15 J3 G H K J2 H K7 L K3 L K4 L K17 M2 L2 M h4 L p3 Q6 h2
     Z h p6 K34 X4 p8 M2 K32 M10 L2 p8 X2 Oa p6 L12 K6 X3 K X K2 L Oa K1c L8 X2 K17 Lb M2 pb X K1d
     p3 L3 M K2f L M2 L4 M2 L2 M3 Xd p J Oa p4 X2 K5 L J K9 Oa K5 p K29 L6 M2 L2 M2 L2 p9 K3 L K8 L
     M p2 Oa p2 X4 K10 J K6 h3 K M L M K32 L K L3 K2 L2 K5 L2 K L K p18 K2 J X2 Kb M L2 M2 X2 K J2
     M L pa K6 p2 K6 p2 K6 p9 K7 p K7 p H2b g J4 H9 J g2 p4 H50 K23 M2 L M2 L M2 X M L p2 Oa p6
     K2ba4 pc K17 p4 K31 p4 k800 n1900 K16e p2 K6a p26 H7 pc H5 p5 K L Ka Y Kd p K5 p K p K2 p K2 p
     K6c g11 p10 K16b U T h10 K40 p2 K36 p7 h p20 Kc Z h3 L10 X7 T U X p6 L10 X S2 R2 T U T U T U T
     U T U T U T U T U X2 T U X4 R3 X3 p X4 S T U T U T U X3 Y S Y3 p X Z X2 p4 K5 p K87 p2 m p X3
     Z X3 T U X Y X S X2 Oa X2 Y3 X2 G1a T X U g R g H1a T Y U Y T U X T U X2 Ka J K2d J2 K1f p3 K6
     p2 K6 p2 K6 p2 K3 p3 Z2 Y g h Z2 p h Y4 h2 pa m3 h2 p2 Kc p K1a p K13 p K2 p Kf p2 Ke p22 K7b
     p5 X3 p4 Q2d p3 h9 P35 Q4 h11 Q2 h3 p hd p3 h p2f h2d L p82 K1d p3 K31 pf L Q1b p4 K20 Q4 p9
     K14 P K8 P p5 K26 L5 p5 K1e p X K24 p4 K8 X P5 p2a G28 H28 K4e p2 Oa p6 G24 p4 H24 p4 K28 p8
     K34 pb X Gb p Gf p G7 p G2 p Hb p Hf p H7 p H2 p3 K34 pc K137 p9 K16 pa K8 p18 J6 p J2a p J9
     p45 K6 p2 K p K2c p K2 p3 K p2 K17 p X Q8 K17 h2 Q7 K1f p8 Q9 p30 K13 p K2 p5 Q5 K16 Q6 p3 X
     K1a p5 X p40 K38 p4 Q2 K2 Q10 p2 Q2e K L3 p L2 p5 L4 K4 p K3 p K1d p2 L3 p4 L Q9 p7 X9 p7 K1d
     Q2 X K1d Q3 p20 K8 h K1c L2 p4 Q5 X7 p9 K36 p3 X7 K16 p2 Q8 K13 p5 Q8 K12 p7 X4 pc Q7 p50 K49
     p37 G33 pd H33 p7 Q6 K24 L4 p8 Oa p6 Oa K4 J K G16 p3 L5 S J H16 p8 Y2 pd0 Q1f p K2a p L2 S p2
     K2 p10 K3 p37 L4 K1d Qa K p8 K16 Lb Q4 X5 p16 K12 L4 X4 p26 K15 Q7 p14 K17 p9 M L M K35 Lf X7
     p4 Q14 Oa L K2 L2 K p9 L3 M K2d M3 L4 M2 L2 X2 m X4 L pa m p2 K19 p7 Oa p6 L3 K24 L5 M L8 p Oa
     X4 K M2 K p8 K23 L X2 K p9 L2 M K30 M3 L9 M2 K4 X4 L4 X M L Oa K X K X3 p Q14 pb K12 p K19 M3
     L3 M2 L M L2 X6 L K2 L p3e K7 p K p K4 p Kf p Ka X p6 K2f L M3 L8 p5 Oa p6 L2 M2 p K8 p2 K2 p2
     K16 p K7 p K2 p K5 p L2 K M2 L M4 p2 M2 p2 M3 p2 K p6 M p5 K5 M2 p2 L7 p3 L5 pb Ka p K p2 K p
     K26 p K M3 L6 p M p2 M p M4 p M2 L M L K L K X2 p X2 p8 L2 p1d K35 M3 L8 M2 L3 M L K4 X5 Oa X2
     p X L K3 p1e K30 M3 L6 M L M4 L2 M L2 K2 X K p8 Oa pa6 K2f M3 L4 p2 M4 L2 M L2 X17 K4 L2 p22
     K30 M3 L8 M2 L M L2 X3 K pb Oa p6 Xd p13 K2b L M L M2 L6 M L K X p6 Oa p6 O14 p1c K1b p2 L M L
     M2 L4 M L5 p4 Oa Q2 X3 h K7 pb9 K2c M3 L9 M L2 X p64 G20 H20 Oa Q9 pc K8 p2 K p2 K8 p K2 p K18
     M6 p M2 p2 L2 M L K M K M L X3 p9 Oa p46 K8 p2 K27 M3 L4 p2 L2 M4 L K X K M p1b K La K28 L6 M
     K L4 X8 L p8 K L6 M2 L3 K2e Ld M L2 X3 K X5 pd K49 p7 Xa pb6 K21 X pe Oa p6 K9 p K25 M L7 p L6
     M L K X5 pa Oa Q13 p3 X2 K1e p2 L16 p M L7 M L2 M L2 p49 K7 p K2 p K26 L6 p3 L p L2 p L7 K L
     p8 Oa p6 K6 p K2 p K20 M5 p L2 p M2 L M L K p7 Oa p136 K13 L2 M2 X2 p7 L2 K M Kd p K22 M2 L5
     p3 M2 L M L Xd Oa L p55 K pf Q15 h8 Z4 h11 pd X K39a p66 P6f p X5 pb Kc4 pa4c K61 X2 pd K430
     m10 L K6 Lf pa Kf9b p5 K247 p1ab9 K1e Lc M3 L3 Oa p6c6 K239 p7 K1f p Oa p4 X2 K4f p Oa p6 K1e
     p2 L5 X pa K30 L7 X5 h4 J4 X h pa Oa p Q7 p K15 p5 K13 p1b0 J3 K28 J2 X3 Oa pc6 G20 H20 Q17 X4
     p65 K4b p4 L K M37 p7 L4 Jd p40 J2 X J L pb M2 pe K17f8 p8 K4d6 p29 Ka p22e7 J4 p J7 p J2 p
     K123 pf K p1d K3 p2 K pe K4 p8 K18c p904 K6b p5 Kd p3 K9 p7 Ka p2 h L2 X m4 pf5c hf0 Oa p6
     h1b4 p4c L2e p2 L17 p9 h74 p3c hf6 pa h27 p2 h3c M2 L3 h3 M6 m8 L8 h2 L7 h1e L4 h3d p15 h42 L3
     h p7a Q14 pc Q14 pc h57 p9 Q19 p87 G1a H1a G1a H7 p H12 G1a H1a G p G2 p2 G p2 G2 p2 G4 p G8
     H4 p H p H7 p Hb G1a H1a G2 p G4 p2 G8 p G7 p H1a G2 p G4 p G5 p G p3 G7 p H1a G1a H1a G1a H1a
     G1a H1a G1a H1a G1a H1a G1a H1c p2 G19 Y H19 Y H6 G19 Y H19 Y H6 G19 Y H19 Y H6 G19 Y H19 Y H6
     G19 Y H19 Y H6 G H p2 O32 h200 L37 h4 L32 h8 L he L h2 X5 pf L5 p Lf p450 Ha K H14 p6 H6 pd5
     L7 p L11 p2 L7 p L2 p L5 p5 J3e p21 L p70 K2d p3 L7 J7 p2 Oa p4 K h p140 K1e L p11 K2c L4 Oa
     p5 Z p1d0 K1b J L4 Oa pd6 K1e L2 K Oa p4 X p1e0 K7 p K4 p K2 p Kf p Kc5 p2 Q9 L7 p29 G22 H22
     L7 J p4 Oa p4 X2 p311 Q3b h Q3 Z Q4 p4c Q2d h Qf pc2 K4 p K1b p K2 p K p2 K p Ka p K4 p K p K
     p6 K p4 K p K p K p K3 p K2 p K p2 K p K p K p K p K p K2 p K p2 K4 p K7 p K4 p K4 p K p Ka p
     K11 p5 K3 p K5 p K11 p34 Y2 p10e h2c p4 h64 pc hf p2 hf p hf p h25 pa Qd ha1 p38 h1d pd h2c p4
     h9 p7 h2 pe h6 p9a hfb g5 h2d8 p4 h11 p3 hd p3 h77 p4 h5f p6 hc p4 h pf hc p4 h38 p8 ha p6 h28
     p8 h1e p2 hc p4 h2 p3e h154 pc he p2 hd p3 ha p5 h38 p7 hf p2 hb p6 h9 p7 h93 p h5c Oa p406
     Ka6e0 p20 K103a p6 Kde p2 K1682 pe K1d31 pf K26e p9a2 K21e p5e2 K134b p5 K1060 padc51 m p1e
     m60 p80 Lf0 pfe10 nfffe p2 nfffe p2]],
   word = [[
     Lu Ll Lt Lm Lo Mn Mc Me Nd Nl Pc: b2-1 5 2-2 23f7-33 1cc46-19 6-19 6-19]],
   rust_word = [[
     Lu Ll Lt Lm Lo Mn Mc Me Nd Nl Pc: 200c-1 4a8-33 1cc46-19 6-19 6-19]],
   numeric = [[
     Nd Nl No: 11de0-9 520a-2]],
   punctuation = [[
     Pc Pd Ps Pe Pi Pf Po: 24 6 10-2 1f 1 1b 1 59e 3df 78 200 c 9e8 4e0-1 2d-2 12c3-c 2-b df10 13e
     a7-4 2c-3 23f 20a-1 1-1 72-4 a-1 1 202-c 4c 181 108-2 9b 5c-7 53-2 1-4 5d-9 d7 5f-4 2a-1 285-1
     4a-c af ff1-1 3d7a-2 127-3 147 761c 35e-1]],
   control = [[
     Cc Cf Co: 9-1 2 882-1 50 f71a 10cf 2362-f]],
   accent = [[
     Mn: 7fd 99-8 2a-17 11c fb-5 55 ae 37 c3 3a-1 44 138 13 865 da 75-1 238-f 327-5 8a30 98 39 bd
     6366-3 41-4 13d-1 4f-3 46-a 31-3 ea 2-1 4d 106 5 6e 2 f9 7f-5 d 1 1 e-1 55-7 2-2 1 17 2bf
     110-8 1-1 100-1 1 4 90-3 2-1 4 20-9 28-5 2-3 8 9-5 2-2 2e-c 1-1 196-6 1-5 1 52-15 2-6 1-1 1-1
     7a-5 3 1-1 1-6 1 48-1 3 1 15b-1 b-1 34-4 5 1 17 14e5 6-e 2cc8-b 3-2 e1f 94 5f1b-2d 2-16 10b9-6
     1-10 2-6 1-1 1-4 64 a0-6 177 3d-3 1fc-3 fe-1 354-6]],
   mark = [[
     Mn Mc Me: 7fd 99-8 2a-9 12a fb-5 55 ae 37 b6 c 3a-1 44 138 13 846 f9 2af-f 223-1 3 fe-4 8a31
     d2 6424-3 41-4 13d-1 4f-3 46-a 31-3 ea 2-1 4d 82-1 82 4-1 71 f9 7c-8 1 2 1-3 1-4 1 e-1 7b
     3cd-e f5-5 1-1 2-3 1 1-1 8d-6 2-6 3 1c-9 28-6 1-3 8 9-a 2e-f 297-5 3 1-1 1-6 1 42-4 1-1 1-4
     15b-3 9-1 1 30-6 3-4 17 14e5 6-e 2cc8-11 e1f 2f-8 5c b-1 5f0e-2d 2-16 1148 a0-6 177 3d-3 1fc-3
     fe-1]],
   graphemes = [[
     Ia H I2 G I12 p5f I21 p9 R p3 I R p251 J70 p113 J7 p107 J2d p J p J2 p J2 p J3 p36 K6 pa Jb p
     I p2e J15 p10 J p65 J7 K p J6 p2 J2 p J4 p21 K p J p1e J1b p5b Jb p3a J9 p9 J p18 J4 p J9 p J3
     p J5 p2b J3 p34 K2 p5 J9 p2a J18 K J20 L p36 J L J p L3 J8 L4 J L2 p J7 pa J2 p1d J L2 p38 J p
     J L2 J4 p2 L2 p2 L2 J p9 J pa J2 p1a J p2 J2 L p38 J p L3 J2 p4 J2 p2 J3 p3 J p1e J2 p3 J pb
     J2 L p38 J p L3 J5 p J2 L p L2 J p14 J2 p16 J6 p J L2 p38 J p J2 L J4 p2 L2 p2 L2 J p5 J5 pa
     J2 p1e J p3b J L J L2 p3 L3 p L3 J p9 J p28 J L3 J p37 J p J3 L4 p J3 p J4 p7 J2 pb J2 p1d J
     L2 p38 J p L J2 L J L2 p J3 p J4 p7 J2 pb J2 pf L pc J2 L2 p37 J2 p J L2 J4 p L3 p L3 J K p8 J
     pa J2 p1d J L2 p46 J p4 J L2 J3 p J p L7 J p12 L2 p3d J p L J7 pc J8 p62 J p L J9 pb J7 p49 J2
     p1b J p J p J p4 L2 p31 Je L J5 p J2 p5 Jb p J24 p9 J p66 J4 L J6 p J2 L2 J2 p17 L2 J2 p4 J3
     p10 J4 pd J p L J2 p6 J pf J p62 M60 N48 O58 p15d J3 p3b2 J4 p1c J3 p1d J2 p1e J2 p40 J2 L J7
     L8 J L2 Jb p9 J p2d J3 I J p75 J2 p22 J p76 J3 L4 J2 L3 p4 L2 J L6 J3 pdb J2 L2 J p39 L J L J7
     p J p J p2 J8 L6 Ja p2 J p30 J41 pf J4 L p2f Ja L4 J3 p26 J9 pc J2 L p1e L J4 L2 J6 p38 J L J2
     L3 J L J5 p30 L8 J8 L2 J2 p98 J3 p Jd L J7 p4 J p6 J p2 L J2 pc6 J40 p20b I J Q I2 p18 I7 pd R
     pc R p16 I10 p60 J21 p31 R p16 R p5a R6 pf R2 p16f R2 pc R pa6 R p19 Rb p4 R3 pc7 R pe7 R2 pa
     R p9 R p3a R4 p R5 p9 R p2 R p2 R2 p2 R p4 R p2 R p R2 p2 R p3 R p3 R2 p8 R3 p5 R p R p5 Rc pb
     R2 p2 R p R2 p R p12 R p2 R2 p12 R6 p R p R2 p3 R2 p5 R p2 R2 p4 R2 pb R2 p5 R2 p2 R p5 R2 p R
     p R2 p14 R2 p5 R6 p R4 p2 R p4 R p2 R p2 R6 p R p2 R p R p R p6 R p3 R p6 R pa R2 pf R p2 R p4
     R p R p4 R3 p R pb R2 p30 R3 p9 R pe R pe R p174 R2 p1cf R3 p13 R2 p33 R p4 R p199 J3 p8d J
     p60 J20 p22a J6 R pc R p5b J2 p1fc R p R p73d5 J4 p Ja p20 J2 p50 J2 p110 J p3 J p4 J p17 L2
     J2 L p4 J p53 L2 p32 L10 J2 p1a J12 pd J p26 J8 p19 Jb L J pc M1d p3 J3 L p2f J L2 J4 L2 J2 L2
     J p24 J p43 J6 L2 J2 L2 J2 pc J p8 J L p2e J p33 J p J3 p2 J2 p5 J2 p J p29 L J2 L2 p5 L J pec
     L2 J L2 J L2 p L J p2bc2 N17 p4 O31 p2322 J p2e1 J10 p10 J10 pcf I p9e J2 p50 Ic p201 J pe2 J
     p95 J5 p686 J3 p J2 p5 J4 p28 J3 p4 J pa5 J2 p23d J4 p41 J5 p13d J2 p1e J5 p20 J10 p46 Jb p31
     J4 p7a L J L p35 Jf p29 J p2 J2 pa J3 L p2d L3 J4 L2 J2 p2 K p4 J pa K p32 J3 p24 J5 L J8 p10
     L2 p2c J pc J2 L p30 L3 J9 L J p K2 p5 J4 p L J p5c L3 J3 L2 J4 p6 J p2 J p9d J L3 J8 p15 J2
     L2 p37 J2 p J L J L4 p2 L2 p2 L2 J p9 J pa L2 p2 J7 p3 J5 p43 J L2 J6 p J p2 J p J3 L p L2 J3
     K J pe J2 p52 L3 J8 L2 J3 L J p17 J p51 J L2 J6 L J L2 J L J2 L J2 peb J L2 J4 p2 L4 J2 L J2
     p1b J2 p52 L3 J8 L2 J L J2 p6a J L J L2 J8 p65 J L J p2 J4 L J5 p100 L3 J9 L J2 pf5 J L5 p L2
     p2 J4 K L K L J p8d L3 J4 p2 J2 L4 J p3 L p1c Ja p28 J6 L p J4 p8 J p9 J6 L2 J3 p28 K6 Jd L J2
     pc6 J L J3 L J L pc7 L J7 p J6 L J p52 J16 p L J7 L J2 L J2 p7a J6 p3 J p J2 p J7 K J p42 L5 p
     J2 p L2 J L J p58 J p102 J2 L2 p9 J2 K L p30 L2 J5 p3 L2 J3 p17 J p14d5 I10 J p6 Jf p2cc8 Jc
     L3 J3 p9c0 J5 p3b J7 p22c N p3 N4 p1e4 J p L37 p7 J4 p51 J pb J2 p4cab J2 p I4 p125c J2e p2
     J17 p1e0 J2 p3c J5 p3 J6 I8 J8 p2 J7 p1e J4 p94 J3 pb J3 p8 J2 p2 J p20 J2 p77e J37 p4 J32 p8
     J pe J p16 J5 p Jf p550 J7 p J11 p2 J7 p J2 p J5 p64 J pa0 J7 p177 J p3d J4 p1fc J4 pfe J2 pf3
     J p2 J p7 J2 p5 J p1da J7 p6d J7 p6b9 R p27 R4 p64 Rc pf R2 pf R pe R2 p25 Ra p70 R2 pc R2 pe
     R p2 Ra p14 R37 P1a p Rf pa R p14 R p2 R9 p R4 p9 R17 p6 Rbc p2 R70 p2 R2 p R3 p2 R53 p2 R3 p
     R4 J5 Rfe p R3f pb R6 p R18 p7 R2 p2 R8 pc R p2 R4 p2 R p4 R2 pd R2 p2 R p8 R2 p9 R p5 R3 pc
     R3 p8 R3 p2 R p R p4 R p6 R p3 R p6 R56 p30 R46 p5 R8 p2 R11 p3 R p R6 p2 Rd pdc R15 p1b R4
     p38 R8 pa R6 p28 R8 p1e R2 pc R4 p2 Re p9 R27 pc R2f p Ra p Rb9 p58 R8 pe R92 p100 R3fe pc0002
     I20 J60 I80 Jf0 Ie10 p2f000]],
   linker = [[
     94d 7f ff 7f ff ff 2eb 798 28d e3 66 149-1 8cc9 135 5f48 6f3 29c 56d fb c 51 4a8]],
   consonant = [[
     915-24 1e-7 18-7 15-13 1-6 1 3-3 22-1 1 10-1 a3-13 1-6 1-1 1-4 3f 1b-13 1-6 1-1 1-4 22-1 1 11
     a3-13 1-f 1e-2 ba-25 2c5-2a 14 10-5 4-3 3 3-1 7-2 4-c c 6f1-33 26c-34 b6-1 6-20 11-7 36-1d d-1
     b-2 8dcb-2 3-23 2d-4 2-8 a-4 61-f 1-2 6 3-1 60-a d5-1a 5e25 f-3 1-2 1-1c 6cd-23 1d 2 238-9 1 2
     1-25 54a-6 2 2-7 1-1 1-17 d0 a-27 1d b-27 86 2e6 112-c 1-21]],
   extend = [[
     Mn Me: 5c8-1 383 70 e 9 f5 70 e 5-1 2 66 18 75 72 1 4-1 1-1 9-1 67 e 9 77 f 259 6db 1e 9d 28d
     6e-21 44 5 1 5 66-1 46-1 419 1020-1 7923 1a2 54a7-1 a9f 48b-4 20-b 237 8c 74 108 e 9 60 9 2
     1-2 5-1 df c f1 106 279 c-1 108 51 c6 1-2 1 289 150-1 50ad-1 6135-1 3c-1 6-5 dd-2 8-1 2 20-1
     1461 2 7-1 5 d05-4 c0c20-5f]],
}
