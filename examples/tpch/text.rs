//! Comments: pieces of a text that is made by the grammar of the specification (clauses 4.2.2.10 and
//! 4.2.2.14), which is shorter than its 300 MB. Words and forms of sentences are equally likely.

use std::ops::Range;

use super::generator::Random;

const NOUNS: &str = "foxes,ideas,theodolites,pinto beans,instructions,dependencies,excuses,platelets,\
    asymptotes,courts,dolphins,multipliers,sauternes,warthogs,frets,dinos,attainments,somas,Tiresias',\
    patterns,forges,braids,hockey players,frays,warhorses,dugouts,notornis,epitaphs,pearls,tithes,\
    waters,orbits,gifts,sheaves,depths,sentiments,decoys,realms,pains,grouches,escapades";
const VERBS: &str = "sleep,wake,are,cajole,haggle,nag,use,boost,affix,detect,integrate,maintain,nod,was,\
    lose,sublate,solve,thrash,promise,engage,hinder,print,x-ray,breach,eat,grow,impress,mold,poach,\
    serve,run,dazzle,snooze,doze,unwind,kindle,play,hang,believe,doubt";
const ADJECTIVES: &str = "furious,sly,careful,blithe,quick,fluffy,slow,quiet,ruthless,thin,close,dogged,\
    daring,brave,stealthy,permanent,enticing,idle,busy,regular,final,ironic,even,bold,silent";
const ADVERBS: &str = "sometimes,always,never,furiously,slyly,carefully,blithely,quickly,fluffily,slowly,\
    quietly,ruthlessly,thinly,closely,doggedly,daringly,bravely,stealthily,permanently,enticingly,\
    idly,busily,regularly,finally,ironically,evenly,boldly,silently";
const PREPOSITIONS: &str = "about,above,according to,across,after,against,along,alongside of,among,around,\
    at,atop,before,behind,beneath,beside,besides,between,beyond,by,despite,during,except,for,from,\
    in place of,inside,instead of,into,near,of,on,outside,over,past,since,through,throughout,to,\
    toward,under,until,up,upon,without,with,within";
const AUXILIARIES: &str = "do,may,might,shall,will,would,can,could,should,ought to,must,will have to,\
    shall have to,could have to,should have to,must have to,need to,try to";
const TERMINATORS: &str = ".,;,:,?,!,--";

/// Forms of sentences: N a noun phrase, V a verb phrase, P a prepositional phrase.
const SENTENCES: [&str; 5] = ["NV", "NVP", "NVN", "NPVN", "NPVP"];
/// Forms of phrases: n a noun, j and J adjectives, J with a comma, d an adverb, v a verb, x an auxiliary.
const NOUN_PHRASES: [&str; 4] = ["n", "jn", "Jjn", "djn"];
const VERB_PHRASES: [&str; 4] = ["v", "xv", "vd", "xvd"];

/// Bytes of the text.
const LENGTH: usize = 4 << 20;

/// The text, of ASCII.
pub struct Text(String);

/// What writes the text.
struct Writer {
    text: String,
    random: Random,
    words: [(char, Vec<&'static str>); 6],
}

impl Writer {
    fn words(&mut self, form: &str) {
        for kind in form.chars() {
            let lower = kind.to_ascii_lowercase();
            let list = self.words.iter().find(|(of, _)| *of == lower);
            let word = self.random.of(&list.expect("a kind of words").1);
            self.text.push_str(word);
            self.text.push_str(if kind == lower { " " } else { ", " });
        }
    }

    fn sentence(&mut self, terminators: &[&str]) {
        for phrase in self.random.of(&SENTENCES).chars() {
            let forms = match phrase {
                'V' => VERB_PHRASES,
                _ => NOUN_PHRASES,
            };
            if phrase == 'P' {
                self.words("p");
                self.text.push_str("the ");
            }
            let form = self.random.of(&forms);
            self.words(form);
        }
        // No space before it.
        self.text.pop();
        self.text.push_str(self.random.of(terminators));
        self.text.push(' ');
    }
}

impl Text {
    pub fn new() -> Self {
        let lists = [
            ('n', NOUNS),
            ('v', VERBS),
            ('j', ADJECTIVES),
            ('d', ADVERBS),
            ('p', PREPOSITIONS),
            ('x', AUXILIARIES),
        ];
        let words = lists.map(|(kind, words)| (kind, words.split(',').collect()));
        let terminators: Vec<&str> = TERMINATORS.split(',').collect();
        let mut writer =
            Writer { text: String::with_capacity(LENGTH + 1024), random: Random::new(0, 0), words };
        while writer.text.len() < LENGTH {
            writer.sentence(&terminators);
        }
        Self(writer.text)
    }

    /// A piece of some length.
    pub fn piece(&self, random: &mut Random, lengths: Range<usize>) -> &str {
        let length = lengths.start + random.below(lengths.len());
        let start = random.below(self.0.len() - length);
        &self.0[start..start + length]
    }
}
